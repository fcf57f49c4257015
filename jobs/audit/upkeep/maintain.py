"""Carries out the upkeep of tables. Each step is a separate commit, and others may append rows at the same time."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from jobs.audit.tables.opening import TableStore, check_writable, open_known
from jobs.audit.tables.specs import TableSpec
from jobs.audit.upkeep.plan import (
    DAILY_MARK,
    TARGET_BYTES,
    THOROUGH,
    UpkeepPlan,
    keep_days,
    live_files,
    plan_upkeep,
    rows_before,
)
from quota.settings import Settings
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
    """Carry out the upkeep of a table, call `after_step` after each step, and record `now` for the daily part."""
    compacted, written, deleted, removed = 0, 0, 0, 0
    with store.errors(table):
        opened = store.open(table)
        if plan.daily:  # before compaction, which is stopped if it takes too long
            # counted again: others may have appended or deleted rows since it was planned
            if deleted := rows_before(plan.first_kept, live_files(opened)):
                opened.delete(f"date < '{plan.first_kept}'")
            removed = len(opened.vacuum(dry_run=False, full=True))  # full: also files of commits that a crash cut short
            _mark(opened, now)
            after_step()
        for day in plan.compact:
            # one task at a time is a bound on memory
            done = opened.optimize.compact(
                [("date", "=", day.isoformat())], target_size=TARGET_BYTES, max_concurrent_tasks=1
            )
            compacted += done["numFilesRemoved"]
            written += done["numFilesAdded"]
            after_step()
    return UpkeepResult(table.name, compacted, written if plan.compact else None, deleted, removed)


@dataclass(frozen=True, slots=True)
class PlannedUpkeep:
    """The upkeep of some tables, planned once, so that the confirmed steps are carried out even after midnight."""

    store: TableStore
    now: datetime
    plans: Mapping[TableSpec, UpkeepPlan]

    @classmethod
    def of(cls, settings: Settings, tables: Iterable[TableSpec]) -> Self:
        """Plan the upkeep of tables at the current time."""
        store, now, plans = TableStore.of(settings), datetime.now(UTC), {}
        for table in tables:
            opened, _ = open_known(settings, table)
            check_writable(store.path(table), opened)
            with store.errors(table):
                plans[table] = plan_upkeep(opened, table.name, keep_days(settings)[table], now, THOROUGH)
        return cls(store, now, plans)

    def preview(self) -> list[UpkeepResult]:
        """Return what `maintain` would do."""
        previews = []
        for table, plan in self.plans.items():
            with self.store.errors(table):
                unused = len(self.store.open(table).vacuum(dry_run=True, full=True))
            previews.append(UpkeepResult(table.name, sum(plan.compact.values()), None, plan.expired_rows, unused))
        return previews


def _mark(opened: DeltaTable, now: datetime) -> None:
    """Record the time of this daily upkeep in the table's log."""
    no_rows = pa.schema(opened.schema().to_arrow()).empty_table()
    mark = Transaction(DAILY_MARK, int(now.timestamp()))
    write_deltalake(opened, no_rows, mode="append", commit_properties=CommitProperties(app_transactions=[mark]))
