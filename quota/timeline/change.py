"""The changes that the records of the quota log make."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias

from msgspec.structs import replace

from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import QUOTA_CONFIGS, RATE_CONFIG, Quota
from quota.records.quota_log import CallbackRecord, Cluster, ClusterRecord, QuotaLogRecord, QuotaRecord, ResetRecord


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A quota in force from `moment` (epoch ms) on; None for no quota."""

    entity: QuotaEntity
    quota: Quota | None
    moment: int
    altered: tuple[str, ...] | None = None
    """The names of the configs that change; None for all."""

    def applied_to(self, previous: Self | None) -> Quota | None:
        """Return the quota that results from the previous one, which the author may not have known.

        Without a previous change, which compaction may have removed, the record's own quota is the result.
        """
        if self.altered is None or previous is None:
            return self.quota
        present = previous.quota
        if present is None or self.quota is None:  # a change of an option does not restore a removed quota
            return self.quota if RATE_CONFIG in self.altered else present
        fields = [QUOTA_CONFIGS[name] for name in self.altered if name in QUOTA_CONFIGS]
        return replace(present, **{field: getattr(self.quota, field) for field in fields})


@dataclass(frozen=True, slots=True)
class BucketReset:
    """A reset, at `moment`, of the buckets with these tags: as if they were never used."""

    tags: Mapping[str, str]
    moment: int


@dataclass(frozen=True, slots=True)
class QuotaCancellation:
    """The cancellation of an entity's quota change scheduled for `moment`."""

    entity: QuotaEntity
    moment: int


@dataclass(frozen=True, slots=True)
class CallbackChange:
    """A callback in force from `moment` (epoch ms) on; None for the one in the settings."""

    setting: CallbackSetting | None
    moment: int
    altered: tuple[str, ...] | None = None
    """The names of the configs that change; None for all."""

    def applied_to(self, previous: CallbackSetting) -> CallbackSetting | None:
        """Return the callback that results from the previous one, which the author may not have known."""
        if self.altered is None or self.setting is None:
            return self.setting
        if previous.class_name != self.setting.class_name:  # a change of configs does not restore a replaced class
            return previous
        changed = {name: value for name, value in self.setting.configs.items() if name in self.altered}
        unchanged = {name: value for name, value in previous.configs.items() if name not in self.altered}
        return CallbackSetting(previous.class_name, unchanged | changed)


@dataclass(frozen=True, slots=True)
class CallbackCancellation:
    """The cancellation of the callback change scheduled for `moment`."""

    moment: int


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """The cluster's metadata from `moment` (epoch ms) on."""

    cluster: Cluster
    moment: int


Change: TypeAlias = (
    QuotaChange | BucketReset | QuotaCancellation | CallbackChange | CallbackCancellation | ClusterChange
)


def to_change(record: QuotaLogRecord, timestamp: int) -> Change:
    """Return the change that a record makes, in force from its timestamp on, or from a later `effective_at`."""
    scheduled = record.effective_at
    moment = timestamp if scheduled is None else max(timestamp, scheduled)
    cancelled = False
    if scheduled is not None and isinstance(record, QuotaRecord | CallbackRecord) and record.cancelled:
        # A cancellation that comes too late repeats the change, because compaction keeps only this record of the two.
        moment, cancelled = scheduled, timestamp < scheduled
    match record:
        case QuotaRecord(entity) if cancelled:
            return QuotaCancellation(entity, moment)
        case QuotaRecord(entity):
            return QuotaChange(entity, record.quota, moment, _altered(record))
        case ResetRecord(bucket):
            return BucketReset(bucket, moment)
        case CallbackRecord() if cancelled:
            return CallbackCancellation(moment)
        case CallbackRecord(setting):
            return CallbackChange(setting, moment, _altered(record))
        case ClusterRecord(cluster):
            return ClusterChange(cluster, moment)


def _altered(record: QuotaRecord | CallbackRecord) -> tuple[str, ...] | None:
    return None if record.altered_configs is None else tuple(record.altered_configs)
