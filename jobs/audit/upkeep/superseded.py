"""Expires quota changes: a change that may still take effect is retained, regardless of its age."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from jobs.audit.quota_changes import log_position, row_to_entry
from quota.records.quota_log import QuotaLogEntry
from quota.timeline.change import BucketReset, CallbackChange, ClusterChange, QuotaChange, to_change

_Row: TypeAlias = dict[str, Any]


def delete_superseded(opened: DeltaTable, first_kept: date) -> int:
    """Delete the changes before a date that are superseded by later changes before that date.

    The quotas in force at that date and later do not change.

    Args:
        opened: the table of quota changes.
        first_kept: the first date whose changes are all retained.

    Returns:
        The number of rows deleted.
    """
    predicate = f"date < '{first_kept}'"
    expired = _read(opened, predicate)
    kept = _without_superseded(expired)
    if len(kept) < len(expired):
        rows = pa.Table.from_pylist(kept, pa.schema(opened.schema().to_arrow()))
        write_deltalake(opened, rows, mode="overwrite", predicate=predicate)
    return len(expired) - len(kept)


def count_superseded(opened: DeltaTable, first_kept: date) -> int:
    """Return the number of rows that `delete_superseded` would delete."""
    expired = _read(opened, f"date < '{first_kept}'")
    return len(expired) - len(_without_superseded(expired))


def _read(opened: DeltaTable, predicate: str) -> list[_Row]:
    return list(pa.RecordBatchReader.from_stream(opened.scan(predicate=predicate)).read_all().to_pylist())


def _without_superseded(rows: list[_Row]) -> list[_Row]:
    """Return the rows on which the state at the end of the rows, or later, depends."""
    groups: dict[bytes, list[tuple[_Row, QuotaLogEntry]]] = {}
    for row in sorted(rows, key=log_position):
        entry = row_to_entry(row)
        groups.setdefault(msgspec.structs.replace(entry.record, effective_at=None).key, []).append((row, entry))
    return [row for changes in groups.values() for row in _kept(changes)]


def _kept(changes: list[tuple[_Row, QuotaLogEntry]]) -> list[_Row]:
    """Return the rows of one entity, callback or bucket that have an effect at the end or later, in their order.

    A change has no further effect if it took effect before a later one that contains the complete result.
    """
    kept: list[_Row] = []
    whole_since = -1
    for (row, entry), is_whole in reversed(list(zip(changes, _completeness(changes), strict=True))):
        if (entry.record.effective_at or entry.timestamp) > whole_since:
            kept.append(row)
        if is_whole:
            whole_since = max(whole_since, entry.timestamp)
    return kept[::-1]


def _completeness(changes: list[tuple[_Row, QuotaLogEntry]]) -> Iterator[bool]:
    """Yield for each change whether its record alone contains the complete result from its time on.

    A change of single configs contains a copy of the others, which is out of date if two authors wrote concurrently.
    """
    previous: QuotaChange | None = None
    is_known = True
    for _, entry in changes:
        change = to_change(entry.record, entry.timestamp)
        is_plain = entry.record.effective_at in {None, entry.timestamp} and not getattr(
            entry.record, "cancelled", False
        )
        match change:
            case QuotaChange() if is_plain:
                result = change.applied_to(previous) if is_known else None
                is_whole = change.altered is None or (is_known and result == change.quota)
                is_known = is_known or is_whole
                previous = replace(change, quota=change.quota if is_whole else result)
                yield is_whole
            case BucketReset() | ClusterChange() if is_plain:
                yield True
            case CallbackChange(altered=None) if is_plain:
                yield True
            case _:  # scheduled, cancelled, or a part of a callback's configs
                is_known = False
                yield False
