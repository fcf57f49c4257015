"""Describes the changes of the quota log, for the report and the dashboard."""

from collections.abc import Mapping

import msgspec

from quota.records.quota_log import CallbackRecord, ClusterRecord, QuotaLogEntry, QuotaRecord, ResetRecord
from quota.text import format_tags, format_time, printable
from quota.timeline.change import CallbackCancellation, Change, QuotaCancellation, QuotaChange, to_change
from quota.timeline.timeline import QuotaTimeline


class DescribedChange(msgspec.Struct, frozen=True):
    """A change of the quota log."""

    offset: int
    at: int
    """The time when it takes effect [epoch ms]."""
    what: str
    user: str | None
    """The only user that it concerns; None if it concerns more than one."""
    client_id: str | None
    altered_by: str
    comment: str


class ChangeDescriber:
    """Describes the changes of the quota log relative to the state before each."""

    def __init__(self) -> None:
        self._timeline = QuotaTimeline()

    def add(self, entry: QuotaLogEntry) -> DescribedChange | None:
        """Return the description of the log's next record; None for the cluster's metadata, which is not shown."""
        record, change = entry.record, to_change(entry.record, entry.timestamp)
        described = None
        if not isinstance(record, ClusterRecord):
            names: Mapping[str, str] = {}
            if isinstance(record, QuotaRecord):
                names = record.entity.names
            elif isinstance(record, ResetRecord):
                names = record.bucket
            described = DescribedChange(
                entry.offset,
                change.moment,
                self._describe(record, change, entry.timestamp),
                names.get("user"),
                names.get("client-id"),
                printable(record.altered_by or ""),
                printable(record.comment or ""),
            )
        self._timeline.add(change)
        return described

    def _describe(self, record: QuotaRecord | ResetRecord | CallbackRecord, change: Change, timestamp: int) -> str:
        cancelled = f"the change scheduled for {format_time(change.moment)} cancelled"
        match record:
            case QuotaRecord(entity) if isinstance(change, QuotaCancellation):
                return f"{entity}: {cancelled}"
            case QuotaRecord(entity):
                before = self._timeline.latest(entity, change.moment)
                old = before.quota if before else None
                new = change.applied_to(before) if isinstance(change, QuotaChange) else record.quota
                what = f"{entity}: {old or 'none'} → {new or 'none'}"
            case ResetRecord(bucket):
                what = f"buckets with {format_tags(bucket)}: reset"
            case CallbackRecord() if isinstance(change, CallbackCancellation):
                return f"callback: {cancelled}"
            case CallbackRecord(setting):
                what = f"callback: {printable(setting.class_name) if setting else 'that of the settings'}"
        return f"{what} (set at {format_time(timestamp)})" if change.moment > timestamp else what
