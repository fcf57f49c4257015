"""Quota entities, and the tags of buckets (KIP-257, KIP-599)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from quota.records import codec
from quota.records.record import Name
from quota.text import quoted


class QuotaEntity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entity that a quota is set for: a user, a client-id or both.

    Without a user, it applies to all users; without a client-id, to all client-ids.
    """

    user: Name | UnsetType | None = UNSET
    """The user's name, or None for the default of users."""
    client_id: Name | UnsetType | None = msgspec.field(default=UNSET, name="client-id")
    """The client-id, or None for the default of client-ids."""

    def __post_init__(self) -> None:
        if self.user is UNSET and self.client_id is UNSET:
            raise ValueError("an entity needs a user, a client-id or both")

    def __str__(self) -> str:
        """Return the entity as Kafka's tools write it."""
        parts = (("user-principal", self.user), ("client-id", self.client_id))
        return ", ".join(
            f"the default {kind}" if name is None else f"{kind} {quoted(name)}"
            for kind, name in parts
            if name is not UNSET
        )

    @property
    def key(self) -> bytes:
        """The record key of the entity's quota: the entity as canonical JSON."""
        return codec.encode(self)

    @property
    def names(self) -> dict[str, str]:
        """The names in the entity, by KIP-257's tags; a part that is missing or a default has no name."""
        parts = {"user": self.user, "client-id": self.client_id}
        return {tag: name for tag, name in parts.items() if isinstance(name, str)}

    @property
    def options(self) -> list[str]:
        """The options of a command that name the entity."""
        named = (("user", self.user), ("client", self.client_id))
        return [
            f"--{part}-defaults" if name is None else f"--{part}={name}" for part, name in named if name is not UNSET
        ]

    @property
    def parts(self) -> list[dict[str, str | None]]:
        """The entity as in Kafka's protocol (KIP-546); the name of a default is None."""
        named = (("user", self.user), ("client-id", self.client_id))
        return [{"entityType": kind, "entityName": name} for kind, name in named if name is not UNSET]

    @classmethod
    def from_parts(cls, parts: Iterable[Mapping[str, str | None]]) -> "QuotaEntity | None":
        """Return the entity that Kafka's protocol describes; None for one of another kind, such as an IP address."""
        names = {part["entityType"]: part["entityName"] for part in parts}
        if not names or names.keys() - {"user", "client-id"}:
            return None
        return cls(names.get("user", UNSET), names.get("client-id", UNSET))

    @classmethod
    def from_key(cls, key: str) -> "QuotaEntity":
        """Return the entity with this key."""
        return _entity_decoder.decode(key)


_entity_decoder = msgspec.json.Decoder(QuotaEntity)


class Tags(NamedTuple):
    """The tags of a bucket (KIP-257's metric tags); an unused tag is the empty string."""

    user: str
    client_id: str
    more: tuple[tuple[str, str], ...] = ()
    """The custom tags of a callback, sorted by name."""

    def items(self) -> list[tuple[str, str]]:
        """Return the tags in use, by KIP-257's names."""
        named = [("user", self.user), ("client-id", self.client_id)]
        return [*((name, value) for name, value in named if value), *self.more]

    @property
    def key(self) -> str:
        """The bucket's key: the tags as JSON, unambiguous for all names."""
        return codec.encode(self if self.more else self[:2]).decode()

    @classmethod
    def from_key(cls, key: str) -> "Tags":
        """Return the tags in a bucket's key."""
        return _tags_decoder.decode(key)


_tags_decoder = msgspec.json.Decoder(Tags)

NO_TAGS = Tags("", "")
