"""Quotas that can be passed by: a client names its client-id itself, and may name another one with each request."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from msgspec import UNSET

from quota.records.entity import QuotaEntity
from quota.text import quoted


@dataclass(frozen=True, slots=True)
class Loophole:
    """Who passes quotas by with a client-id that none names."""

    user: str | None
    """None for all whom no quota names."""
    by: QuotaEntity | None
    """Whose quota gives them a full bucket for each; None where they have no quota at all."""

    @property
    def instead(self) -> QuotaEntity:
        """Whose quota stops it: one bucket over all client-ids."""
        return QuotaEntity(self.user)

    def __str__(self) -> str:
        who = "a user whom no quota names" if self.user is None else f"user {quoted(self.user)}"
        stopped = f"set one for {self.instead} alone, without a client-id"
        if self.by is None:
            return f"{who} has no quota with a client-id that none names; {stopped}"
        return f"{who} gets a full bucket with each new client-id, by the quota of {self.by}; {stopped}, in its place"


def loopholes(entities: Collection[QuotaEntity]) -> list[Loophole]:
    """Who can pass the quotas of these entities by with a client-id that no quota names, and what stops it."""
    named = sorted({entity.user for entity in entities if isinstance(entity.user, str)})
    return [each for user in (*named, None) for each in _of(user, entities)]


def _of(user: str | None, entities: Collection[QuotaEntity]) -> Iterator[Loophole]:
    """The loophole of a user, or of all whom no quota names."""
    own = [] if user is None else [QuotaEntity(user, None), QuotaEntity(user)]
    levels = [*own, QuotaEntity(None, None), QuotaEntity(None), QuotaEntity(UNSET, None)]
    winner = next((level for level in levels if level in entities), None)
    if winner is None or winner.client_id is not UNSET:  # else one bucket over all client-ids
        yield Loophole(user, winner)
