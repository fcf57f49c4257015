"""Documents on quotas."""

import msgspec

from quota.records.entity import QuotaEntity


class ListedQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The quota of an entity, in force or scheduled."""

    entity: QuotaEntity
    """The entity whose quota it is."""
    controller_mutation_rate: float | None
    """Partition mutations per second; null for the scheduled removal of a quota."""
    controller_mutation_burst: float | None
    """Partition mutations; null for a burst of window.num * window.size.seconds of the rate."""
    max_debt_ms: int | None
    """The longest time in ms that a single request may throttle its tenant; null for no bound."""
    shadow: bool
    """Whether requests over the quota are only reported, and admitted."""
    since: int | None
    """The time from which the quota holds, epoch ms; null for a scheduled change."""
    scheduled_for: int | None
    """The time from which a scheduled change will hold, epoch ms; null for a quota in force."""


class Quotas(msgspec.Struct, frozen=True):
    """The output of `quotas describe`."""

    quotas: list[ListedQuota]
    """The quotas in force, and after them the scheduled changes."""
