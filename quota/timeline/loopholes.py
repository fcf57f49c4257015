"""Loopholes: quotas that a client evades by a new client-id with each request, as clients choose their client-ids."""

from collections.abc import Collection
from dataclasses import dataclass

from quota.records.entity import NO_TAGS, QuotaEntity
from quota.text import quoted
from quota.timeline.resolution import levels, unused_name


@dataclass(frozen=True, slots=True)
class Loophole:
    """A user who evades quotas by client-ids that no quota names."""

    user: str | None
    """The user's name; None for all users that no quota names."""
    by: QuotaEntity | None
    """The entity whose quota grants a full bucket to each client-id; None where no quota applies."""

    @property
    def instead(self) -> QuotaEntity:
        """The entity whose quota closes the loophole: one bucket for all client-ids."""
        return QuotaEntity(self.user)

    def __str__(self) -> str:
        """Return the loophole, and the entry of a quota file that closes it."""
        named = self.user is not None
        who = f"user {quoted(self.user)}" if self.user is not None else "a user whom no quota names"
        entity = f"entity: {{user: {self.user!r}}}" if named else "entity: {user: null}"
        if self.by is not None:
            return (
                f"{who} gets a full bucket with each new client-id, by the quota of {self.by}; "
                f'replace that entry by one with "{entity}"'
            )
        which = " with any client-id that no quota names" if named else ""
        return f'{who} is unlimited{which}; add an entry with "{entity}"'


def loopholes(entities: Collection[QuotaEntity]) -> list[Loophole]:
    """Return the loopholes of the quotas of these entities: of each named user, and of all others."""
    users = {entity.user for entity in entities if isinstance(entity.user, str)}
    names = users | {entity.client_id for entity in entities if isinstance(entity.client_id, str)}
    unnamed = unused_name(names)
    found = []
    for user in (*sorted(users), None):
        candidates = levels(unnamed if user is None else user, unnamed)
        entity, tags = next((level for level in candidates if level[0] in entities), (None, NO_TAGS))
        if entity is None or tags.client_id:  # otherwise all client-ids share a bucket
            found.append(Loophole(user, entity))
    return found
