"""Quotas that can be passed by: a client names its client-id itself, and may name another one with each request."""

from collections.abc import Collection, Iterator

from msgspec import UNSET

from quota.entity import QuotaEntity


def loopholes(entities: Collection[QuotaEntity]) -> list[str]:
    """Who can pass the quotas of these entities by with a client-id that no quota names, and what stops it."""
    named = sorted({entity.user for entity in entities if isinstance(entity.user, str)})
    return [*(each for user in named for each in _of(user, entities)), *_of(None, entities)]


def _of(user: str | None, entities: Collection[QuotaEntity]) -> Iterator[str]:
    """The loophole of a user, or of all whom no quota names."""
    own = [] if user is None else [QuotaEntity(user, None), QuotaEntity(user)]
    levels = [*own, QuotaEntity(None, None), QuotaEntity(None), QuotaEntity(UNSET, None)]
    winner = next((level for level in levels if level in entities), None)
    if winner is not None and winner.client_id is UNSET:
        return  # one bucket over all client-ids
    who = "a user whom no quota names" if user is None else f"user {user!r}"
    alone = "the default user" if user is None else "the user"
    if winner is None:
        yield f"{who} has no quota with a client-id that none names; set one for {alone} alone, without a client-id"
    else:
        yield (
            f"{who} gets a full bucket with each new client-id, by the quota of {winner}; "
            f"set one for {alone} alone, without a client-id, in its place"
        )
