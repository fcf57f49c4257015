"""Describes the changes of the quota log, for the report and the dashboard."""

from collections.abc import Mapping

import msgspec

from quota.records.quota_log import QuotaLogEntry, QuotaRecord, ResetRecord
from quota.text import format_tags, format_time, printable
from quota.timeline.change import (
    BucketReset,
    CallbackCancellation,
    CallbackChange,
    ClusterChange,
    QuotaCancellation,
    QuotaChange,
    to_change,
)
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
        if isinstance(change, ClusterChange):
            return None
        names: Mapping[str, str] = {}
        if isinstance(record, QuotaRecord):
            names = record.entity.names
        elif isinstance(record, ResetRecord):
            names = record.bucket
        return DescribedChange(
            entry.offset,
            change.moment,
            self._describe(change, entry.timestamp),
            names.get("user"),
            names.get("client-id"),
            printable(record.altered_by or ""),
            printable(record.comment or ""),
        )

    def _describe(
        self,
        change: QuotaChange | QuotaCancellation | BucketReset | CallbackChange | CallbackCancellation,
        timestamp: int,
    ) -> str:
        """Add a change to the timeline, and return its description."""
        cancelled = f"the change scheduled for {format_time(change.moment)} cancelled"
        match change:
            case QuotaCancellation(entity):
                self._timeline.add(change)
                return f"{entity}: {cancelled}"
            case CallbackCancellation():
                return f"callback: {cancelled}"
            case QuotaChange(entity):
                before, after = self._timeline.add_quota(change)
                what = f"{entity}: {before or 'none'} → {after or 'none'}"
            case BucketReset(tags):
                what = f"buckets with {format_tags(tags)}: reset"
            case CallbackChange(setting):
                what = f"callback: {printable(setting.class_name) if setting else 'that of the settings'}"
        return f"{what} (set at {format_time(timestamp)})" if change.moment > timestamp else what
