"""The history of the quota log as data and as text."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from jobs.cli.control.quota_text import format_callback, quota_configs
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    CallbackRecord,
    ClusterRecord,
    QuotaLogEntry,
    QuotaLogRecord,
    QuotaRecord,
    ResetRecord,
)
from quota.text import format_configs, format_tags, format_time, printable
from quota.timeline.change import CallbackCancellation, Change, QuotaChange, to_change
from quota.timeline.timeline import QuotaTimeline
from schemas.documents.quotas import HistoryEntry, QuotaConfigs


def history(entries: Iterable[QuotaLogEntry], entity: QuotaEntity | None) -> Iterator[HistoryEntry]:
    """Yield the changes of an entity, or all changes: when, what, by whom and why."""
    timeline = QuotaTimeline()
    for entry in entries:
        record, change = entry.record, to_change(entry.record, entry.timestamp)
        if entity is None or _concerns(record, entity):
            yield HistoryEntry(
                offset=entry.offset,
                timestamp=entry.timestamp,
                effective_at=change.moment,
                altered_by=record.altered_by,
                comment=record.comment,
                **_change(record, change, timeline),
            )
        timeline.add(change)


def history_line(entry: HistoryEntry) -> str:
    """Return a change as a line."""
    author = f" by {printable(entry.altered_by)}" if entry.altered_by else ""
    moment = format_time(entry.effective_at)
    later = f", from {moment} on" if entry.effective_at > entry.timestamp else ""
    why = f"  # {printable(entry.comment)}" if entry.comment else ""
    match entry.kind:
        case "bucket_reset":
            what = f"buckets with {format_tags(entry.bucket or {})} reset"
        case "callback":
            what = f"callback: {format_callback(entry.callback)}"
        case "callback_cancel":
            what, later = f"callback: change scheduled for {moment} cancelled", ""
        case "cluster":
            what = f"cluster: {entry.topics} topics, {entry.partitions} partitions"
        case "cancel":
            what, later = f"{entry.entity}: change scheduled for {moment} cancelled", ""
        case _:
            what = f"{entry.entity}: {_configs(entry.before)} -> {_configs(entry.after)}"
    return f"{format_time(entry.timestamp)}{author}  {what}{later}{why}"


def _configs(quota: QuotaConfigs | None) -> str:
    return format_configs(None if quota is None else msgspec.structs.asdict(quota))


def _concerns(record: QuotaLogRecord, entity: QuotaEntity) -> bool:
    match record:
        case QuotaRecord():
            return record.entity == entity
        case ResetRecord(bucket):
            return bucket.items() <= entity.names.items()
        case _:
            return False


def _change(record: QuotaLogRecord, change: Change, timeline: QuotaTimeline) -> dict[str, Any]:
    match record:
        case ResetRecord(bucket):
            return {"kind": "bucket_reset", "bucket": bucket}
        case CallbackRecord(setting):
            is_cancellation = isinstance(change, CallbackCancellation)
            return {"kind": "callback_cancel" if is_cancellation else "callback", "callback": setting}
        case ClusterRecord(cluster):
            return {"kind": "cluster", "topics": len(cluster.topics), "partitions": cluster.partitions}
        case QuotaRecord(entity):
            before = timeline.latest(entity, change.moment)
            row = {"kind": "quota", "entity": entity, "before": quota_configs(before.quota if before else None)}
            if isinstance(change, QuotaChange):
                return row | {"after": quota_configs(change.applied_to(before))}
            return row | {"kind": "cancel"}
