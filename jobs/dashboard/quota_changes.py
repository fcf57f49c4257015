"""Descriptions of the changes in the quota log, for the list of the page."""

import msgspec

from quota.records.quota_log import (
    CallbackRecord,
    ClusterRecord,
    QuotaLogEntry,
    QuotaRecord,
    ResetRecord,
)
from quota.text import format_tags, format_time, printable
from quota.timeline.change import CallbackCancellation, Change, QuotaCancellation, QuotaChange, to_change
from quota.timeline.timeline import QuotaTimeline


class ChangeRow(msgspec.Struct, frozen=True):
    """A change of the quota log."""

    seq: int
    """The number of the state change that added it."""
    offset: int
    at: int
    """The time when it takes effect [epoch ms]."""
    what: str
    by: str
    comment: str


class QuotaChanges:
    """The newest changes of the quota log, each with a description relative to the state before it."""

    def __init__(self, max_changes: int) -> None:
        """Start without changes; beyond `max_changes` the oldest are dropped."""
        self._max_changes = max_changes
        self._timeline = QuotaTimeline()
        self._rows: list[ChangeRow] = []

    def add(self, entry: QuotaLogEntry, seq: int) -> None:
        """Add a record of the log; the cluster's metadata is ignored."""
        change = to_change(entry.record, entry.timestamp)
        if not isinstance(entry.record, ClusterRecord):
            record = entry.record
            row = ChangeRow(
                seq,
                entry.offset,
                change.moment,
                _describe(entry, change, self._timeline),
                printable(record.altered_by or ""),
                printable(record.comment or ""),
            )
            self._rows = [*self._rows, row][-self._max_changes :]
        self._timeline.add(change)

    def newest(self, after_seq: int = 0) -> list[ChangeRow]:
        """Return the changes after a given state change, newest first."""
        return [each for each in reversed(self._rows) if each.seq > after_seq]


def _describe(entry: QuotaLogEntry, change: Change, timeline: QuotaTimeline) -> str:
    record = entry.record
    match record:
        case QuotaRecord(entity):
            if isinstance(change, QuotaCancellation):
                return f"{entity}: the change scheduled for {format_time(change.moment)} cancelled"
            before = timeline.latest(entity, change.moment)
            old = before.quota if before else None
            new = change.applied_to(before) if isinstance(change, QuotaChange) else record.quota
            what = f"{entity}: {old or 'none'} → {new or 'none'}"
        case ResetRecord(bucket):
            what = f"buckets with {format_tags(bucket)}: reset"
        case CallbackRecord(setting):
            if isinstance(change, CallbackCancellation):
                return f"callback: the change scheduled for {format_time(change.moment)} cancelled"
            what = f"callback: {printable(setting.class_name) if setting else 'that of the settings'}"
        case _:
            what = "the cluster's partitions"
    return f"{what} (set at {format_time(entry.timestamp)})" if change.moment > entry.timestamp else what
