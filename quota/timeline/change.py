"""The changes that the records of the quota log make, and what is in force after each of them."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeAlias, TypeVar

import msgspec

from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    QUOTA_CONFIGS,
    RATE_CONFIG,
    CallbackRecord,
    CallbackSetting,
    Cluster,
    ClusterRecord,
    Quota,
    QuotaLogRecord,
    QuotaRecord,
    ResetRecord,
)
from quota.text import format_time

R = TypeVar("R", QuotaRecord, CallbackRecord)


class ScheduledChange(msgspec.Struct, frozen=True):
    """A scheduled change of a quota, of the callback or of buckets."""

    effective_at: int
    """The time at which it takes effect, epoch ms."""
    change: str
    """What it does, in words."""
    entity: QuotaEntity | None = None
    """The entity whose quota changes; null for the callback, or a reset of buckets."""
    bucket: dict[str, str] | None = None
    """The tags of the buckets that are reset; null for another change."""


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A quota in force from `moment` (epoch ms) on; None for no quota."""

    entity: QuotaEntity
    quota: Quota | None
    moment: int
    altered: tuple[str, ...] | None = None
    """The names of the configs that change; None for all."""
    scheduled: bool = field(default=False, compare=False)
    """Whether the record has a time of its own, and therefore a key of its own."""

    def __str__(self) -> str:
        """Return what a scheduled change does, as it follows its entity."""
        new = "is removed" if self.quota is None else f"becomes {self.quota}"
        return f"{new} from {format_time(self.moment)} on"

    def applied_to(self, present: Quota | None) -> Quota | None:
        """Return the quota that results from the one in force, which the author may not have known."""
        if self.altered is None or (self.quota is None and RATE_CONFIG in self.altered):
            return self.quota
        if self.quota is None or (present is None and RATE_CONFIG not in self.altered):
            return present  # an option does not restore a removed quota
        fields = [QUOTA_CONFIGS[name] for name in self.altered if name in QUOTA_CONFIGS]
        changed = {field: getattr(self.quota, field) for field in fields}
        return msgspec.structs.replace(present or Quota(self.quota.rate), **changed)

    def after(self, previous: Self | None) -> Self:
        """Return the change with the whole quota that results after the previous one."""
        if self.altered is None:
            return self
        quota = self.applied_to(previous.quota if previous else None)
        return replace(self, quota=quota, altered=_altered_at_once(previous, self))

    def record(self, effective_at: int | None, *, cancelled: bool = False) -> QuotaRecord:
        """Return its record for a scheduled time (epoch ms); by default one with the whole, which alters nothing."""
        more = {"effective_at": effective_at, "altered_configs": _recorded(self, effective_at), "cancelled": cancelled}
        return msgspec.structs.replace(QuotaRecord.of(self.entity, self.quota), **more)


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
    late: bool = False
    """Whether it came after that moment, so that it has no effect."""


@dataclass(frozen=True, slots=True)
class CallbackChange:
    """A callback in force from `moment` (epoch ms) on; None for the one in the settings."""

    setting: CallbackSetting | None
    moment: int
    altered: tuple[str, ...] | None = None
    """The names of the configs that change; None for all."""
    scheduled: bool = field(default=False, compare=False)
    """Whether the record has a time of its own, and therefore a key of its own."""

    def after(self, previous: Self | None, default: CallbackSetting) -> Self:
        """Return the change with the whole callback that results after the previous one; `default` is the settings'."""
        if self.altered is None or self.setting is None:
            return self
        present = previous.setting if previous else None
        whole = present or default
        if whole.class_name == self.setting.class_name:  # a change of configs does not restore a replaced class
            changed = {name: value for name, value in self.setting.configs.items() if name in self.altered}
            unchanged = {name: value for name, value in whole.configs.items() if name not in self.altered}
            present = CallbackSetting(whole.class_name, unchanged | changed)
        return replace(self, setting=present, altered=_altered_at_once(previous, self))

    def record(self, effective_at: int | None, *, cancelled: bool = False) -> CallbackRecord:
        """Return its record for a scheduled time (epoch ms); by default one with the whole, which alters nothing."""
        altered = _recorded(self, effective_at)
        return CallbackRecord(self.setting, effective_at, altered_configs=altered, cancelled=cancelled)


@dataclass(frozen=True, slots=True)
class CallbackCancellation:
    """The cancellation of the callback change scheduled for `moment`."""

    moment: int
    late: bool = False
    """Whether it came after that moment, so that it has no effect."""


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
    match record:
        case QuotaRecord(entity, cancelled=True) if scheduled is not None:
            return QuotaCancellation(entity, scheduled, late=timestamp >= scheduled)
        case QuotaRecord(entity):
            return QuotaChange(entity, record.quota, moment, _altered(record), _is_scheduled(record, timestamp))
        case ResetRecord(bucket):
            return BucketReset(bucket, moment)
        case CallbackRecord(cancelled=True) if scheduled is not None:
            return CallbackCancellation(scheduled, late=timestamp >= scheduled)
        case CallbackRecord(setting):
            return CallbackChange(setting, moment, _altered(record), _is_scheduled(record, timestamp))
        case ClusterRecord(cluster):
            return ClusterChange(cluster, moment)


def joined(record: R, version: QuotaChange | CallbackChange | None) -> R:
    """Return a scheduled record that names all configs that change at its time, by `version` before it.

    Compaction keeps only the last record for a time. If no quota is in force then, the record sets the whole.
    """
    if version is None or not version.scheduled or version.moment != record.effective_at:
        return record
    has_whole = isinstance(version, CallbackChange) or version.quota is not None
    altered = altered_together(version.altered, _altered(record)) if has_whole else None
    return msgspec.structs.replace(record, altered_configs=None if altered is None else list(altered))


def is_complete(record: QuotaRecord | CallbackRecord, timestamp: int, version: QuotaChange | CallbackChange) -> bool:
    """Return whether compaction may remove the earlier records of its key: `version` is what they result in together.

    An immediate record holds the whole then, a scheduled one all configs that change at its time.
    """
    change = to_change(record, timestamp)
    if isinstance(change, QuotaChange | CallbackChange) and not change.scheduled:
        return replace(change, altered=version.altered) == version
    return _altered(record) == version.altered


def _altered(record: QuotaRecord | CallbackRecord) -> tuple[str, ...] | None:
    return None if record.altered_configs is None else tuple(sorted({*record.altered_configs}))


def _recorded(change: QuotaChange | CallbackChange, effective_at: int | None) -> list[str] | None:
    if effective_at is None:
        return []
    return None if change.altered is None else list(change.altered)


def _is_scheduled(record: QuotaRecord | CallbackRecord, timestamp: int) -> bool:
    """Return whether a record has its own time; a row of the table has the timestamp as its time if it has not."""
    return record.cancelled or record.effective_at not in (None, timestamp)


def _altered_at_once(
    previous: QuotaChange | CallbackChange | None, change: QuotaChange | CallbackChange
) -> tuple[str, ...] | None:
    """Return the configs that change at the time of a scheduled change, by an earlier record for that time, too."""
    if previous is None or previous.moment != change.moment or not (previous.scheduled and change.scheduled):
        return change.altered
    return altered_together(previous.altered, change.altered)


def altered_together(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the configs that two changes alter; None for all."""
    return None if one is None or other is None else tuple(sorted({*one, *other}))


C = TypeVar("C", QuotaChange, CallbackChange)


class EffectiveChanges(Generic[C]):
    """The changes of one quota or of the callback, in the order of their effect, each with the whole that results.

    A change may name only some configs, so it depends on all that take effect before it, even those read later.
    """

    __slots__ = ("_apply", "_changes", "_has_base", "all")

    def __init__(self, apply: Callable[[C, C | None], C]) -> None:
        """`apply` returns a change with the whole that results after the previous one."""
        self.all: list[C] = []
        """The changes, each with the whole that results."""
        self._changes: list[C] = []
        self._apply: Callable[[C, C | None], C] = apply
        self._has_base = False

    def add(self, change: C) -> None:
        """Add a change; the later of two at the same time wins.

        The first immediate one is taken as a whole: compaction may have removed those before it, and leaves a
        record that is complete. It never leaves a scheduled change without the immediate one that it alters.
        """
        if not change.scheduled:
            if not self._has_base and change.altered is not None:
                change = replace(change, altered=None)
            self._has_base = True
        position = _count_until(self._changes, change.moment)
        self._changes.insert(position, change)
        self._apply_from(position)

    def cancel(self, moment: int) -> None:
        """Remove the changes that were scheduled for `moment` (epoch ms): what was in force before them stays."""
        self._changes = [change for change in self._changes if change.moment != moment]
        self._apply_from(_count_until(self._changes, moment))

    def forget(self, before: int) -> None:
        """Forget the changes that were replaced before a time (epoch ms); what was in force then stays, as a whole."""
        replaced = self.count(before) - 1
        if replaced > 0:
            del self._changes[:replaced], self.all[:replaced]
            self._changes[0] = self.all[0] = replace(self.all[0], altered=None)

    def count(self, at: int) -> int:
        """Return the number of changes that have taken effect as of `at` (epoch ms)."""
        return _count_until(self.all, at)

    def latest(self, at: int) -> C | None:
        """Return the latest change as of `at` (epoch ms)."""
        count = self.count(at)
        return self.all[count - 1] if count else None

    def scheduled(self, after: int) -> list[C]:
        """Return the changes that take effect later than `after` (epoch ms); of two at one time, the later one."""
        return list({change.moment: change for change in self.all[self.count(after) :]}.values())

    def _apply_from(self, position: int) -> None:
        del self.all[position:]
        for change in self._changes[position:]:
            self.all.append(self._apply(change, self.all[-1] if self.all else None))


def _count_until(changes: list[C], at: int) -> int:
    return bisect_right(changes, at, key=lambda change: change.moment)
