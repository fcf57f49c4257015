"""Plans the upkeep of tables, which reads only their logs, in milliseconds, and carries it out.

Each step is a separate commit, and others may append rows at the same time.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.fs import DeltaStorageHandler
from msgspec.structs import replace

from jobs.audit.tables import TABLES, TableSpec, TableStore, check_writable, open_known
from quota.settings import Settings
from quota.text import plural
from schemas.documents.records import MaintainedTable

TARGET_BYTES = 64 * 1024 * 1024
"""The size that compaction aims at, in bytes; a file of less than half of it is small."""

_DAILY_MARK = "mutation-quota-upkeep"
"""The transaction under which a table holds the time of its last daily upkeep, in epoch seconds."""

_DAY = timedelta(days=1)


class UpkeepPlan(msgspec.Struct, frozen=True):
    """The steps of the upkeep of a table."""

    table: str
    compact: dict[date, int]
    """The numbers of small files by the dates to compact, newest first."""
    daily: bool
    """Whether the daily part is due: expired rows are deleted, and unused files are removed."""
    first_kept: date | None
    """The first date whose rows are retained; None to retain all."""
    expired_rows: int
    """The number of rows before that date."""

    @property
    def parts(self) -> list["UpkeepPlan"]:
        """The daily part and the rest. They are carried out separately: if one fails, the other is still done."""
        daily, rest = replace(self, compact={}), replace(self, daily=False)
        return [part for part in (daily, rest) if part.daily or part.compact]


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The number of small files that a date may have before it is compacted."""

    newest: int
    """For the table's newest date, which still grows."""
    older: int
    """For any other date."""


REGULAR = FileLimits(newest=20, older=3)
"""The limits of the regular upkeep, which runs between the batches of a query."""

THOROUGH = FileLimits(newest=1, older=1)
"""The limits of upkeep on demand."""


def keep_days(settings: Settings) -> dict[TableSpec, int | None]:
    """Return how many days of rows each table retains; None for all."""
    by_name = {str(name): days for name, days in settings.audit.keep_days.items()}
    return {table: by_name.get(table.name) for table in TABLES}


def plan_upkeep(
    table: DeltaTable, name: str, keep_days: int | None, now: datetime, limits: FileLimits = REGULAR
) -> UpkeepPlan:
    """Plan the upkeep of a table, which retains `keep_days` days of rows in addition to the newest; None for all."""
    files = _live_files(table)
    dates = pc.unique(files["date"]).drop_null().to_pylist()
    newest = max(dates, default=None)
    first_kept = _first_kept(newest, keep_days, now)
    daily = limits is THOROUGH or not timedelta() <= now - last_daily(table) < _DAY
    compact = _dates_to_compact(files, newest, limits)
    return UpkeepPlan(name, compact, daily, first_kept, _rows_before(first_kept, files))


def last_daily(table: DeltaTable) -> datetime:
    """Return the time of the last daily upkeep, or that of the table's creation."""
    seconds = table.transaction_version(_DAILY_MARK)
    created = (table.metadata().created_time or 0) / 1000
    return datetime.fromtimestamp(created if seconds is None else seconds, UTC)


def _live_files(table: DeltaTable) -> pa.Table:
    """Return the date, the size in bytes and the number of rows of each file of the table (`date`, `bytes`, `rows`)."""
    actions = pa.table(table.get_add_actions(flatten=False))
    dates = pc.struct_field(actions["partition"], "date")
    return pa.table({"date": dates, "bytes": actions["size_bytes"], "rows": actions["num_records"]})


def _rows_before(first_kept: date | None, files: pa.Table) -> int:
    """Return the number of rows in those of `_live_files` that are older than a date."""
    if first_kept is None:
        return 0
    return pc.sum(files["rows"].filter(pc.less(files["date"], pa.scalar(first_kept)))).as_py() or 0


def _dates_to_compact(files: pa.Table, newest: date | None, limits: FileLimits) -> dict[date, int]:
    small = Counter(files["date"].filter(pc.less(files["bytes"], TARGET_BYTES // 2)).drop_null().to_pylist())
    return {
        day: small[day]
        for day in sorted(small, reverse=True)
        if small[day] > (limits.newest if day == newest else limits.older)
    }


def _first_kept(newest: date | None, keep_days: int | None, now: datetime) -> date | None:
    """Return the first retained date, relative to the clock or to the newest row, whichever is earlier.

    So neither a clock that is years ahead nor a record from the future causes rows to be deleted.
    """
    if keep_days is None or newest is None:
        return None
    return min(newest, now.astimezone(UTC).date()) - timedelta(days=keep_days)


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


def maintain(store: TableStore, table: TableSpec, plan: UpkeepPlan, now: datetime) -> UpkeepResult:
    """Carry out the upkeep of a table, and record `now` for the daily part."""
    compacted, written, deleted, removed = 0, 0, 0, 0
    with store.errors(table):
        opened = store.open(table)
        if plan.daily:  # before compaction, which is stopped if it takes too long
            # counted again: others may have appended or deleted rows since it was planned
            if deleted := _rows_before(plan.first_kept, _live_files(opened)):
                opened.delete(f"date < '{plan.first_kept}'")
            removed = _remove_unused(opened, store.options)
            mark = Transaction(_DAILY_MARK, int(now.timestamp()))
            no_rows = pa.schema(opened.schema().to_arrow()).empty_table()
            write_deltalake(opened, no_rows, mode="append", commit_properties=CommitProperties(app_transactions=[mark]))
        for day in plan.compact:
            # one task at a time is a bound on memory
            done = opened.optimize.compact(
                [("date", "=", day.isoformat())], target_size=TARGET_BYTES, max_concurrent_tasks=1
            )
            compacted += done["numFilesRemoved"]
            written += done["numFilesAdded"]
    return UpkeepResult(table.name, compacted, written if plan.compact else None, deleted, removed)


_DATA_FILE = re.compile(r"(_change_data/)?date=[^/]+/(part|cdc)-[^/]+\.parquet")
"""The names that Spark and deltalake give the files of a table, also with the feature `changeDataFeed`."""

_DELETIONS_AT_ONCE = 8


def _remove_unused(table: DeltaTable, options: Mapping[str, str], *, dry_run: bool = False) -> int:
    """Remove the files that no version of the last two days uses, also those of commits that a crash cut short.

    Other files below the table's folder, such as an export, are somebody else's, and stay. Returns the number of files.
    """
    unused = table.vacuum(dry_run=True, full=True)
    own = [file for file in unused if _DATA_FILE.fullmatch(file)]
    if not dry_run and own == unused:
        table.vacuum(dry_run=False, full=True)  # many in one request, where a store can
    elif not dry_run:
        folder = DeltaStorageHandler.from_table(table._table, dict(options))  # noqa: SLF001
        with ThreadPoolExecutor(_DELETIONS_AT_ONCE) as pool:
            list(pool.map(folder.delete_file, own))
    return len(own)


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
                unused = _remove_unused(self.store.open(table), self.store.options, dry_run=True)
            previews.append(UpkeepResult(table.name, sum(plan.compact.values()), None, plan.expired_rows, unused))
        return previews
