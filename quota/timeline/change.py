"""The change that each record of the quota log makes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import (
    FIELDS,
    RATE,
    CallbackRecord,
    Cluster,
    ClusterRecord,
    LogRecord,
    QuotaRecord,
    ResetRecord,
)


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A quota in force from `moment` (epoch ms) on; None for no quota."""

    entity: QuotaEntity
    quota: Quota | None
    moment: int
    altered: tuple[str, ...] | None = None
    """What the change is about, by the names of the configs; None for the whole."""

    def on(self, before: Self | None) -> Quota | None:
        """What it makes of the quota before it, which whoever wrote it may not have known.

        Where nothing is known before it, compaction may have removed it: the record holds the whole.
        """
        if self.altered is None or before is None:
            return self.quota
        held = before.quota
        if held is None or self.quota is None:  # a change of an option does not bring back a quota that is gone
            return self.quota if RATE in self.altered else held
        fields = [FIELDS[name] for name in self.altered if name in FIELDS]
        return replace(held, **{field: getattr(self.quota, field) for field in fields})


@dataclass(frozen=True, slots=True)
class BucketReset:
    """Buckets with these tags are as if never seen, at `moment`."""

    tags: Mapping[str, str]
    moment: int


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The change of an entity that would hold from `moment` on is taken back."""

    entity: QuotaEntity
    moment: int


@dataclass(frozen=True, slots=True)
class CallbackChange:
    """From `moment` on requests are judged by this callback; None for that of the settings."""

    setting: CallbackSetting | None
    moment: int
    altered: tuple[str, ...] | None = None
    """Which configs the change is about; None for the whole."""

    def on(self, before: CallbackSetting) -> CallbackSetting | None:
        """What it makes of the callback before it, which whoever wrote it may not have known."""
        if self.altered is None or self.setting is None:
            return self.setting
        if before.class_name != self.setting.class_name:  # other configs do not bring back a class that is gone
            return before
        given = {name: value for name, value in self.setting.configs.items() if name in self.altered}
        kept = {name: value for name, value in before.configs.items() if name not in self.altered}
        return CallbackSetting(before.class_name, kept | given)


@dataclass(frozen=True, slots=True)
class CallbackCancellation:
    """The callback that would judge from `moment` on is taken back."""

    moment: int


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """From `moment` on the cluster looks like this."""

    cluster: Cluster
    moment: int


Change: TypeAlias = QuotaChange | BucketReset | Cancellation | CallbackChange | CallbackCancellation | ClusterChange


def change_of(record: LogRecord, timestamp: int) -> Change:
    """The change that a record makes: in force from the record's own timestamp on, or from a later `effective_at`."""
    later = record.effective_at
    moment = timestamp if later is None else max(timestamp, later)
    cancelled = False
    if later is not None and isinstance(record, QuotaRecord | CallbackRecord) and record.cancelled:
        # Where it is too late the change has held. It is repeated here, because compaction leaves this record alone.
        moment, cancelled = later, timestamp < later
    match record:
        case QuotaRecord(entity) if cancelled:
            return Cancellation(entity, moment)
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
