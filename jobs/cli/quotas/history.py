"""`mutation-quota quotas history`: shows who changed what, when and why."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer

from jobs.audit.quota_history import change_text, to_history
from jobs.cli.options import KafkaOptions, PeriodOptions
from jobs.cli.output import OutputOptions, print_table, table_time
from jobs.cli.quotas.entities import EntityOptions
from jobs.cli.quotas.text import entity_cells
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaLogEntry, QuotaLogRecord, QuotaRecord, ResetRecord
from quota.text import format_time, plural
from quota.timeline.timeline import QuotaTimeline
from schemas.documents.quotas import HistoryEntry, QuotaHistory

_COLUMNS = ("TIME", "BY", "USER / CLIENT-ID", "CHANGE", "COMMENT")


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
        change = to_history(entry, timeline)
        if entity is None or _concerns(entry.record, entity):
            yield change


def print_history(changes: Sequence[HistoryEntry]) -> None:
    """Print a table of changes."""
    print_table(_COLUMNS, map(_row, changes), sentences=_COLUMNS[1:], optional=("COMMENT", "BY"))


def _row(entry: HistoryEntry) -> list[str]:
    entity = " / ".join(entity_cells(entry.entity)) if entry.entity else "-"
    author = entry.altered_by or "-"
    text = change_text(entry, f", from {format_time(entry.effective_at)} on")
    return [table_time(entry.timestamp), author, entity, text, entry.comment or ""]


def _concerns(record: QuotaLogRecord, entity: QuotaEntity) -> bool:
    match record:
        case QuotaRecord():
            return record.entity == entity
        case ResetRecord(bucket):
            return bucket.items() <= entity.names.items()
        case _:
            return False
