"""What the upkeep of a table has to do. This reads the table's log only, in milliseconds."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from msgspec.structs import replace

from jobs.audit.tables.specs import TABLES, TENANT_MINUTES, TableSpec
from quota.settings import Settings

TARGET_BYTES = 64 * 1024 * 1024
"""The size that compaction aims at, in bytes; a file of less than half of it is small."""

DAILY_MARK = "mutation-quota-upkeep"
"""The transaction under which a table holds the time of its last daily upkeep, in epoch seconds."""

_DAY = timedelta(days=1)


class CompactedDate(msgspec.Struct, frozen=True):
    """A date whose small files are to be compacted."""

    date: date
    files: int
    """The number of its small files."""
    bytes: int
    """Their size in all."""


class UpkeepPlan(msgspec.Struct, frozen=True):
    """What the upkeep of a table has to do."""

    table: str
    """The table's name."""
    compact: list[CompactedDate]
    """The dates to compact, from the latest."""
    daily: bool
    """Whether the daily part is due: expired rows are deleted, and unused files are removed."""
    first_kept: date | None
    """The first date whose rows are kept; None to keep all."""

    @property
    def parts(self) -> list["UpkeepPlan"]:
        """The daily part and the rest, of which neither shall keep the other from being done."""
        daily, rest = replace(self, compact=[]), replace(self, daily=False)
        return [each for each in (daily, rest) if not each.is_empty]

    @property
    def steps(self) -> int:
        """The number of steps that it takes to carry it out."""
        return len(self.compact) + self.daily

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How many small files a date may have."""

    newest: int
    """Of the table's newest date, which still grows."""
    older: int


OFTEN = FileLimits(newest=20, older=3)
"""The limits of the upkeep that runs beside a query."""

THOROUGH = FileLimits(newest=1, older=1)
"""The limits of upkeep on demand."""


def keep_days(settings: Settings) -> dict[TableSpec, int | None]:
    """Return how many days of rows each table keeps; None for all."""
    by_name = {str(name): days for name, days in settings.audit.keep_days.items()}
    return {table: by_name.get(table.name) for table in TABLES} | {TENANT_MINUTES: settings.minutes.keep_days or None}


def plan_upkeep(
    table: DeltaTable, name: str, keep_days: int | None, now: datetime, limits: FileLimits = OFTEN
) -> UpkeepPlan:
    """Return what the upkeep of a table has to do.

    Args:
        table: the table at its present version.
        name: its name.
        keep_days: how many days of rows are kept beside the newest one; None keeps all.
        now: the time.
        limits: how many small files may stay.
    """
    files = live_files(table)
    dates = pc.unique(files["date"]).drop_null().to_pylist()
    newest = max(dates, default=None)
    compact = list(_dates_to_compact(files, newest, limits))
    daily = limits is THOROUGH or not timedelta() <= now - last_daily(table) < _DAY
    return UpkeepPlan(name, compact, daily, _first_kept(newest, keep_days, now))


def last_daily(table: DeltaTable) -> datetime:
    """Return the time of the last daily upkeep, or that of the table's creation."""
    seconds = table.transaction_version(DAILY_MARK)
    created = (table.metadata().created_time or 0) / 1000
    return datetime.fromtimestamp(created if seconds is None else seconds, UTC)


def live_files(table: DeltaTable) -> pa.Table:
    """Return the date, the size in bytes and the number of rows of each file of the table (`date`, `bytes`, `rows`)."""
    actions = pa.table(table.get_add_actions(flatten=False))
    dates = pc.struct_field(actions["partition"], "date")
    return pa.table({"date": dates, "bytes": actions["size_bytes"], "rows": actions["num_records"]})


def _dates_to_compact(files: pa.Table, newest: date | None, limits: FileLimits) -> Iterator[CompactedDate]:
    small = files.filter(pc.less(files["bytes"], TARGET_BYTES // 2))
    by_date = small.group_by("date").aggregate([("bytes", "count"), ("bytes", "sum")]).sort_by([("date", "descending")])
    for row in by_date.to_pylist():
        limit = limits.newest if row["date"] == newest else limits.older
        if row["date"] is not None and row["bytes_count"] > limit:
            yield CompactedDate(row["date"], row["bytes_count"], row["bytes_sum"])


def _first_kept(newest: date | None, keep_days: int | None, now: datetime) -> date | None:
    """Return the first date that is kept, by the clock or by the newest row, whichever is earlier.

    A clock that is wrong by years deletes nothing that way, nor does a record from the future.
    """
    if keep_days is None or newest is None:
        return None
    return min(newest, now.astimezone(UTC).date()) - timedelta(days=keep_days)
