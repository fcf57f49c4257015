"""Expiry of quota changes: the last change of each key is kept, however old it is, because it may be in force."""

from datetime import date
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from jobs.audit.quota_changes import row_to_entry

_Row: TypeAlias = dict[str, Any]


def delete_superseded(opened: DeltaTable, first_kept: date) -> int:
    """Delete the changes before a date that a later one before that date replaces, as Kafka's compaction does.

    The quotas in force at that date and later stay exactly the same.

    Args:
        opened: the table of quota changes.
        first_kept: the first date of which all changes are kept.

    Returns:
        The number of rows deleted.
    """
    predicate = f"date < '{first_kept}'"
    expired = _read(opened, predicate)
    kept = _last_of_each_key(expired)
    if len(kept) < len(expired):
        rows = pa.Table.from_pylist(kept, pa.schema(opened.schema().to_arrow()))
        write_deltalake(opened, rows, mode="overwrite", predicate=predicate)
    return len(expired) - len(kept)


def count_superseded(opened: DeltaTable, first_kept: date) -> int:
    """Return the number of rows that `delete_superseded` would delete."""
    expired = _read(opened, f"date < '{first_kept}'")
    return len(expired) - len(_last_of_each_key(expired))


def _read(opened: DeltaTable, predicate: str) -> list[_Row]:
    return list(pa.RecordBatchReader.from_stream(opened.scan(predicate=predicate)).read_all().to_pylist())


def _last_of_each_key(rows: list[_Row]) -> list[_Row]:
    """Return the rows that no later row of the same key replaces."""
    return list({_key(row): row for row in sorted(rows, key=_position)}.values())


def _key(row: _Row) -> bytes:
    """Return the key that the change had in its topic; the table has a time of effect for each change."""
    entry = row_to_entry(row)
    record = entry.record
    is_scheduled = (record.effective_at or 0) > entry.timestamp
    return record.key if is_scheduled else msgspec.structs.replace(record, effective_at=None).key


def _position(row: _Row) -> tuple[int, int]:
    return row["source"]["partition"], row["source"]["offset"]
