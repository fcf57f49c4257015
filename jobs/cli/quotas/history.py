"""`mutation-quota quotas history`: shows who changed what, when and why."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from jobs.cli.options import KafkaOptions, PeriodOptions
from jobs.cli.output import OutputOptions, print_table, table_time
from jobs.cli.quotas.entities import EntityOptions
from jobs.cli.quotas.text import entity_cells, format_callback
from quota.records.entity import QuotaEntity
from quota.records.quota import QUOTA_CONFIGS, Quota
from quota.records.quota_log import QuotaLogEntry, QuotaLogRecord, QuotaRecord, ResetRecord
from quota.text import format_duration, format_tags, format_time, plural
from quota.timeline.change import (
    BucketReset,
    CallbackCancellation,
    CallbackChange,
    Change,
    ClusterChange,
    QuotaCancellation,
    QuotaChange,
    to_change,
)
from quota.timeline.timeline import QuotaTimeline
from schemas.documents.quotas import HistoryEntry, QuotaHistory

_COLUMNS = ("TIME", "BY", "USER / CLIENT-ID", "CHANGE", "COMMENT")
_LABELS = dict(zip(QUOTA_CONFIGS.values(), ("rate", "burst", "max debt", "shadow"), strict=True))


def history(
    whose: EntityOptions,
    period: PeriodOptions,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Print at most the N latest.")] = 1000,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Show who changed what, when and why.

    Reads the quota topic, which retains all changes for a week, and the last one of each entity forever. The Delta
    table quota_changes retains all changes. --from and --to refer to the time at which a change was written.

    Examples:
      mutation-quota quotas history --from -1d
      mutation-quota quotas history --user alice -o jsonl
    """
    entity = whose.parse_optional()
    start, end = period.parse()
    settings = kafka.read()
    from quota.kafka.quotas.log import read_log

    log = read_log(settings, with_entries=True)
    entries = [
        entry
        for entry in history_entries(log.entries, entity)
        if entry.timestamp >= (start or 0) and (end is None or entry.timestamp < end)
    ]
    changes = entries[-limit:]
    left_out = len(entries) - len(changes)
    selected = entity is not None or period != PeriodOptions()
    none = "no such changes" if selected else "no changes"
    document = QuotaHistory(changes, left_out)
    output.print_found(document, lambda: print_history(changes), items="changes", none=none, selected=selected)
    if left_out:
        print(f"and {plural(left_out, 'earlier change')} (--limit)", file=sys.stderr)


def history_entries(entries: Iterable[QuotaLogEntry], entity: QuotaEntity | None) -> Iterator[HistoryEntry]:
    """Yield the changes of an entity, or all changes."""
    timeline = QuotaTimeline()
    for entry in entries:
        record, change = entry.record, to_change(entry.record, entry.timestamp)
        described = _described(change, timeline)
        if entity is None or _concerns(record, entity):
            yield HistoryEntry(
                offset=entry.offset,
                timestamp=entry.timestamp,
                effective_at=change.moment,
                altered_by=record.altered_by,
                comment=record.comment,
                **described,
            )


def print_history(changes: Sequence[HistoryEntry]) -> None:
    """Print a table of changes."""
    print_table(_COLUMNS, map(_row, changes), sentences=_COLUMNS[1:], optional=("COMMENT", "BY"))


def _row(entry: HistoryEntry) -> list[str]:
    entity = " / ".join(entity_cells(entry.entity)) if entry.entity else "-"
    author = entry.altered_by or "-"
    return [table_time(entry.timestamp), author, entity, _change_text(entry), entry.comment or ""]


def _change_text(entry: HistoryEntry) -> str:
    moment = format_time(entry.effective_at)
    later = f", from {moment} on" if entry.effective_at > entry.timestamp else ""
    match entry.kind:
        case "bucket_reset":
            return f"buckets with {format_tags(entry.bucket or {})} reset{later}"
        case "callback":
            return f"callback: {format_callback(entry.callback)}{later}"
        case "callback_cancel":
            return f"callback: change scheduled for {moment} cancelled"
        case "cluster":
            topics, partitions = entry.topic_count or 0, entry.partition_count or 0
            return f"cluster: {plural(topics, 'topic')}, {plural(partitions, 'partition')}{later}"
        case "cancel":
            return f"change scheduled for {moment} cancelled"
        case _:
            return f"{', '.join(_differences(entry.before, entry.after))}{later}"


def _differences(before: Quota | None, after: Quota | None) -> Iterator[str]:
    """Yield the values of a quota that have changed: all of them if the quota is new."""
    if after is None:
        yield "removed"
        return
    for name, label in _LABELS.items():
        old, new = getattr(before, name, None), getattr(after, name)
        if before is None and new not in (None, False):
            yield f"{label} {_value(name, new)}"
        elif before is not None and old != new:
            yield f"{label} {_value(name, old)} -> {_value(name, new)}"
    if before == after:
        yield "the same quota again"


def _value(name: str, value: float | None) -> str:
    if value is None:
        return "none"
    if name == "max_debt_ms":
        return format_duration(int(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.10g}"


def _concerns(record: QuotaLogRecord, entity: QuotaEntity) -> bool:
    match record:
        case QuotaRecord():
            return record.entity == entity
        case ResetRecord(bucket):
            return bucket.items() <= entity.names.items()
        case _:
            return False


def _described(change: Change, timeline: QuotaTimeline) -> dict[str, Any]:
    """Add a change to the timeline, and return what the history says of it."""
    match change:
        case QuotaChange(entity):
            before, after = timeline.add_quota(change)
            return {"kind": "quota", "entity": entity, "before": before, "after": after}
        case QuotaCancellation(entity):
            before, _ = timeline.add_quota(change)
            return {"kind": "cancel", "entity": entity, "before": before}
        case BucketReset(tags):
            return {"kind": "bucket_reset", "bucket": tags}
        case CallbackChange(setting):
            return {"kind": "callback", "callback": setting}
        case CallbackCancellation():
            return {"kind": "callback_cancel"}
        case ClusterChange(cluster):
            return {"kind": "cluster", "topic_count": len(cluster.topics), "partition_count": cluster.partitions}
