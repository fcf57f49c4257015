"""Describes the changes of the quota log, for the report and the dashboard."""

import msgspec

from jobs.report.quota_history import change_text, to_history
from quota.records.quota_log import ClusterRecord, QuotaLogEntry
from quota.text import format_time, printable
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
        if isinstance(entry.record, ClusterRecord):
            return None
        change = to_history(entry, self._timeline)
        text = change_text(change, f" (set at {format_time(change.timestamp)})")
        names = change.entity.names if change.entity else change.bucket or {}
        return DescribedChange(
            change.offset,
            change.effective_at,
            f"{change.entity}: {text}" if change.entity else text,
            names.get("user"),
            names.get("client-id"),
            printable(change.altered_by or ""),
            printable(change.comment or ""),
        )
