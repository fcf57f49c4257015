"""The history of the quota log as JSON and as text."""

from collections.abc import Iterable, Iterator
from typing import Any

from jobs.cli.control.quota_text import format_callback, quota_json
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


def history_json(entries: Iterable[QuotaLogEntry], entity: QuotaEntity | None) -> Iterator[dict[str, Any]]:
    """Yield the changes of an entity, or all changes: when, what, by whom and why."""
    timeline = QuotaTimeline()
    for entry in entries:
        record, change = entry.record, to_change(entry.record, entry.timestamp)
        if entity is None or _concerns(record, entity):
            times = {"offset": entry.offset, "timestamp": entry.timestamp, "effective_at": change.moment}
            author = {"altered_by": record.altered_by, "comment": record.comment}
            yield times | _change_json(record, change, timeline) | author
        timeline.add(change)


def history_line(row: dict[str, Any]) -> str:
    """Return a change, as `history_json` yields it, as a line."""
    author = f" by {printable(row['altered_by'])}" if row["altered_by"] else ""
    later = f", from {format_time(row['effective_at'])} on" if row["effective_at"] > row["timestamp"] else ""
    why = f"  # {printable(row['comment'])}" if row["comment"] else ""
    match row["kind"]:
        case "bucket_reset":
            what = f"buckets with {format_tags(row['bucket'])} reset"
        case "callback":
            what = f"callback: {format_callback(row['callback'])}"
        case "callback_cancel":
            what, later = f"callback: the change for {format_time(row['effective_at'])} taken back", ""
        case "cluster":
            what = f"cluster: {row['topics']} topics, {row['partitions']} partitions"
        case "cancel":
            what, later = f"{row['entity']}: the change for {format_time(row['effective_at'])} taken back", ""
        case _:
            what = f"{row['entity']}: {format_configs(row['before'])} -> {format_configs(row['after'])}"
    return f"{format_time(row['timestamp'])}{author}  {what}{later}{why}"


def _concerns(record: QuotaLogRecord, entity: QuotaEntity) -> bool:
    match record:
        case QuotaRecord():
            return record.entity == entity
        case ResetRecord(bucket):
            return bucket.items() <= entity.names.items()
        case _:
            return False


def _change_json(record: QuotaLogRecord, change: Change, timeline: QuotaTimeline) -> dict[str, Any]:
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
            row = {"kind": "quota", "entity": entity, "before": quota_json(before.quota if before else None)}
            if isinstance(change, QuotaChange):
                return row | {"after": quota_json(change.applied_to(before))}
            return row | {"kind": "cancel"}
