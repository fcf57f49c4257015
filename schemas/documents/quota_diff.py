"""Documents on the difference between a file of quotas and the quotas in force."""

from typing import Literal

import msgspec

from quota.records.entity import QuotaEntity


class QuotaValues(msgspec.Struct, frozen=True):
    """A quota."""

    controller_mutation_rate: float
    """Partition mutations per second."""
    controller_mutation_burst: float | None
    """Partition mutations; null for a burst of window.num * window.size.seconds of the rate."""
    max_debt_ms: int | None
    """The longest time in ms that a single request may throttle its tenant; null for no bound."""
    shadow: bool
    """Whether requests over the quota are only reported, and admitted."""


class QuotaDifference(msgspec.Struct, frozen=True):
    """A change that `quotas apply` would make."""

    change: Literal["add", "change", "remove"]
    """What it would do; `remove` with `scheduled_for` cancels a scheduled change."""
    entity: QuotaEntity
    """The entity whose quota it is."""
    before: QuotaValues | None
    """The quota in force, or that of the scheduled change; null for none."""
    after: QuotaValues | None
    """The quota of the file; null for none."""
    scheduled_for: int | None
    """The time of the scheduled change, epoch ms; null for a quota in force."""


class QuotaDiff(msgspec.Struct, frozen=True):
    """The output of `quotas diff`."""

    differs: bool
    """Whether `quotas apply` would change anything."""
    changes: list[QuotaDifference]
    """The changes, by entity."""
