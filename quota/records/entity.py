"""Quota entities: for whom a quota is set, which of them wins, and who shares its bucket (KIP-257, KIP-599)."""

from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from quota.text import quoted

_Name = Annotated[str, msgspec.Meta(min_length=1)]

_encode = msgspec.json.Encoder().encode


class QuotaEntity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For whom a quota is set: a user, a client-id or both; a part that is left out takes no part."""

    user: _Name | UnsetType | None = UNSET
    """A user's name, or None for the default of users."""
    client_id: _Name | UnsetType | None = msgspec.field(default=UNSET, name="client-id")
    """A client-id, or None for the default of client-ids."""

    def __post_init__(self) -> None:
        if self.user is UNSET and self.client_id is UNSET:
            raise ValueError("an entity needs a user, a client-id or both")

    def __str__(self) -> str:
        """As Kafka's tools write it."""
        parts = (("user-principal", self.user), ("client-id", self.client_id))
        return ", ".join(
            f"the default {kind}" if name is None else f"{kind} {quoted(name)}"
            for kind, name in parts
            if name is not UNSET
        )

    @property
    def key(self) -> bytes:
        """The record key of this entity's quota: the entity itself, always spelled the same."""
        return _encode(self)

    @classmethod
    def of_key(cls, key: str) -> "QuotaEntity":
        """The entity whose key that is."""
        return _entity_decoder.decode(key)


_entity_decoder = msgspec.json.Decoder(QuotaEntity)


class Tags(NamedTuple):
    """Who shares a bucket: KIP-257's metric tags; the part that does not take part is the empty string."""

    user: str
    client_id: str
    more: tuple[tuple[str, str], ...] = ()
    """What a callback has besides, by name."""

    def items(self) -> list[tuple[str, str]]:
        """The tags that take part, by KIP-257's names."""
        named = [("user", self.user), ("client-id", self.client_id)]
        return [*((name, value) for name, value in named if value), *self.more]

    @property
    def key(self) -> str:
        """The bucket's identity as one string, unambiguous for all names."""
        return _encode(self if self.more else self[:2]).decode()

    @classmethod
    def of_key(cls, key: str) -> "Tags":
        """The tags that a bucket's identity consists of."""
        return _tags_decoder.decode(key)


_tags_decoder = msgspec.json.Decoder(Tags)

NO_TAGS = Tags("", "")


def levels(user: str, client_id: str) -> tuple[tuple[QuotaEntity, Tags], ...]:
    """The eight levels that may hold a quota for a request, the most specific first, with the bucket each leads to."""
    both, per_user, per_client = Tags(user, client_id), Tags(user, ""), Tags("", client_id)
    return (
        (QuotaEntity(user, client_id), both),
        (QuotaEntity(user, None), both),
        (QuotaEntity(user), per_user),
        (QuotaEntity(None, client_id), both),
        (QuotaEntity(None, None), both),
        (QuotaEntity(None), per_user),
        (QuotaEntity(UNSET, client_id), per_client),
        (QuotaEntity(UNSET, None), per_client),
    )
