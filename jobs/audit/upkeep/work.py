"""Carries out the upkeep of a table. Each step is a separate commit, and others may append rows at the same time."""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import TableSpec
from jobs.audit.upkeep.plan import DAILY_MARK, TARGET_BYTES, UpkeepPlan, live_files
from quota.text import plural
from schemas.documents.maintenance import MaintainedTable


class UpkeepResult(MaintainedTable, frozen=True):
    """The result of the upkeep of a table, or a preview of it."""

    def __str__(self) -> str:
        parts = []
        if self.files_compacted:
            into = "" if self.files_written is None else f" into {self.files_written:,}"
            parts.append(f"{plural(self.files_compacted, 'file')} compacted{into}")
        if self.rows_deleted:
            parts.append(f"{plural(self.rows_deleted, 'expired row')} deleted")
        if self.files_removed:
            parts.append(f"{plural(self.files_removed, 'unused file')} removed")
        return f"{self.table}: {', '.join(parts) or 'nothing to do'}"


def maintain(
    store: TableStore,
    table: TableSpec,
    plan: UpkeepPlan,
    now: datetime,
    after_step: Callable[[], None] = lambda: None,
) -> UpkeepResult:
    """Carry out the upkeep of a table.

    Args:
        store: the location of the table.
        table: the table to maintain.
        plan: the steps.
        now: the time that is recorded for the daily part (UTC).
        after_step: called after each of `plan.steps`.

    Raises:
        MutationQuotaError: the table cannot be read or written, or others changed the same rows.
    """
    compacted, written, deleted, removed = 0, 0, 0, 0
    with store.errors(table):
        opened = store.open(table)
        if plan.daily:  # before compaction, which is stopped if it takes too long
            if plan.first_kept:
                deleted = _delete_before(opened, plan.first_kept)
            removed = _vacuum(opened)
            _mark(opened, now)
            after_step()
        for each in plan.compact:
            done = _compact(opened, each.date)
            compacted += done["numFilesRemoved"]
            written += done["numFilesAdded"]
            after_step()
    return UpkeepResult(table.name, compacted, written if plan.compact else None, deleted, removed)


def preview_upkeep(store: TableStore, table: TableSpec, plan: UpkeepPlan) -> UpkeepResult:
    """Return what `maintain` would do.

    Raises:
        MutationQuotaError: the table cannot be read.
    """
    unused = 0
    if plan.daily:
        with store.errors(table):
            unused = len(store.open(table).vacuum(dry_run=True, full=True))
    compacted = sum(each.files for each in plan.compact)
    return UpkeepResult(table.name, compacted, None, count_expired(store, table, plan), unused)


def _compact(opened: DeltaTable, day: date) -> dict[str, Any]:
    """Compact the small files of a date, and return deltalake's counts."""
    return opened.optimize.compact(
        [("date", "=", day.isoformat())],
        target_size=TARGET_BYTES,
        max_concurrent_tasks=1,  # a bound on memory
    )


def _delete_before(opened: DeltaTable, first_kept: date) -> int:
    rows = _count_before(opened, first_kept)
    if rows:
        opened.delete(f"date < '{first_kept}'")
    return rows


def count_expired(store: TableStore, table: TableSpec, plan: UpkeepPlan) -> int:
    """Return the number of rows that `maintain` would delete.

    Raises:
        MutationQuotaError: the table cannot be read.
    """
    if not (plan.daily and plan.first_kept):
        return 0
    with store.errors(table):
        return _count_before(store.open(table), plan.first_kept)


def _count_before(opened: DeltaTable, first_kept: date) -> int:
    files = live_files(opened)
    before = pc.less(files["date"], pa.scalar(first_kept))
    return int(pc.sum(files["rows"].filter(before)).as_py() or 0)


def _vacuum(opened: DeltaTable) -> int:
    """Remove files that are older than the table's `delta.deletedFileRetentionDuration` and no longer part of it."""
    return len(opened.vacuum(dry_run=False, full=True))  # full: also files of commits that a crash has interrupted


def _mark(opened: DeltaTable, now: datetime) -> None:
    """Record the time of this daily upkeep in the table's log."""
    no_rows = pa.schema(opened.schema().to_arrow()).empty_table()
    mark = Transaction(DAILY_MARK, int(now.timestamp()))
    write_deltalake(opened, no_rows, mode="append", commit_properties=CommitProperties(app_transactions=[mark]))
