"""Warnings of quotas that are valid, and yet apply to nobody, or are evaded by a new client-id with each request."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from quota.records.entity import NO_TAGS, QuotaEntity
from quota.records.levels import levels, unused_name
from quota.records.quota_log import QuotaRecord
from quota.text import quoted


@dataclass(frozen=True, slots=True)
class Loophole:
    """A user who evades quotas by client-ids that no quota names."""

    user: str | None
    """The user's name; None for all users that no quota names."""
    by: QuotaEntity | None
    """The entity whose quota grants a full bucket to each client-id; None where no quota applies."""

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
    unnamed = unused_name(entities)
    holes = []
    for user in (*sorted(users), None):
        candidates = levels(unnamed if user is None else user, unnamed)
        entity, tags = next((level for level in candidates if level[0] in entities), (None, NO_TAGS))
        if entity is None or tags.client_id:  # otherwise all client-ids share a bucket
            holes.append(Loophole(user, entity))
    return holes


_UNUSUAL = re.compile(r"^(user|group|role|team)[:/]|%[0-9a-f]{2}|^\s|\s$", re.IGNORECASE)
"""A principal with its type, a percent-encoded name, and one with spaces around it."""


def name_warning(name: str) -> str | None:
    """Return why a name probably names nobody; None for an ordinary one."""
    if name in ("*", "<default>"):
        return "this is one name, and not all of them; set the default instead (--user-defaults, user: null)"
    if _UNUSUAL.search(name):
        return "probably nobody's name: leave out User:, spaces around it and percent-encoding; groups have no quotas"
    return None


def user_warnings(setting: str, names: Iterable[str]) -> list[str]:
    """Return the warnings of the users in a setting."""
    return [f"{setting}: {quoted(name)}: {warning}" for name in names if (warning := name_warning(name))]


_ROLE = re.compile(r"arn:aws[^:]*:sts::\d+:assumed-role/[^/]+")
_ROLE_RULE = r"RULE:^arn:aws[^:]*:sts::\d+:assumed-role\/([^\/]+)\/.*$/$1/, DEFAULT"
_MANY = 10
"""So many users that differ only in their last part are probably sessions, even if it is not known of what."""


def session_warnings(users: Iterable[str]) -> list[str]:
    """Return the warnings of users that are probably the sessions of one, such as those of an IAM role."""
    warnings = []
    for name, count in Counter(user.rpartition("/")[0] for user in {*users}).items():
        is_role = _ROLE.fullmatch(name) is not None
        if name and count >= (2 if is_role else _MANY):
            escaped = re.escape(name).replace("/", r"\/")
            rule = _ROLE_RULE if is_role else rf"RULE:^({escaped})\/.*$/$1/, DEFAULT"
            warnings.append(
                f"{count} users differ only after {quoted(name + '/')}: if they are sessions of one, a quota limits "
                "none of them, because each new session has a full bucket; give observe import --set "
                f"observe.principal_mapping_rules={shlex.quote(rule)}. Brokers cannot map them: there, set quotas by "
                "client-id alone (recommend --by client)"
            )
    return warnings


_MOST = 1_000_000.0
"""More than a controller does [mutations/s]: a quota above it limits nobody."""
_LEAST = 1 / 3600
"""A mutation an hour [mutations/s]: below it, a topic of a few partitions keeps its client out for hours or days."""


def rate_warning(rate: float) -> str | None:
    """Return why a rate (mutations/s) is probably a typo; None for a usual one."""
    if rate > _MOST:
        return f"{rate:g} mutations/s are more than a controller does, so this limits nobody"
    if rate < _LEAST:
        return f"{rate:g} mutations/s are less than one an hour, so a topic is paid for in hours or days"
    return None


def rate_warnings(records: Iterable[QuotaRecord]) -> list[str]:
    """Return the warnings of the rates that records set."""
    rates = ((record.entity, record.controller_mutation_rate) for record in records)
    return [f"{entity}: {warning}" for entity, rate in rates if rate is not None and (warning := rate_warning(rate))]


def quota_warnings(
    named: Iterable[QuotaEntity], in_force: Collection[QuotaEntity], of: Collection[QuotaEntity] | None = None
) -> list[str]:
    """Return the warnings of quotas: of the names in the entities, and of the loopholes of those in force.

    With `of`, only the loopholes that the quotas of these entities open or leave.
    """
    names = [
        f"{entity}: {warning}" for entity in named for name in entity.names.values() if (warning := name_warning(name))
    ]
    holes = loopholes({*in_force})
    if of is not None:
        users = {entity.user for entity in of if entity.user is not None}
        holes = [loophole for loophole in holes if loophole.by in of or loophole.user in users]
    return names + [str(loophole) for loophole in holes]
