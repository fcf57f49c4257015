"""The requests in the audit's tables: DuckDB sorts the recorded decisions, and each is decided again as it comes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from itertools import chain, islice, pairwise
from typing import TypeVar

import duckdb
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.audit.decisions import NEWEST, read_answers
from jobs.audit.quota_changes import read_quota_log
from jobs.audit.reader import bounded_duckdb, open_table, read_errors, to_datetime
from jobs.audit.tables import DECISIONS
from jobs.progress import progress
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import NotFound
from quota.records.decision import Decision
from quota.records.record import MAX_EPOCH_MS
from quota.settings import Settings
from quota.text import quoted
from quota.timeline.change import to_change
from quota.whatif.effects import Period

T = TypeVar("T")

_STEP = 5_000
"""The number of decisions after which the words on standard error change."""

_MEMORY, _MORE_MEMORY = "192MB", "1GB"
"""The memory of DuckDB, which sorts what is larger in a temporary folder, and that for requests of a hundred topics."""

_THREADS = 1
"""The threads of DuckDB: each needs some of that memory, and deciding takes longer than sorting."""

_ROWS = """
CREATE VIEW rows AS
SELECT * FROM (FROM columns UNION ALL BY NAME FROM files)
WHERE epoch_ms("timestamp") BETWEEN {first} AND {last} AND {of_user}
"""
"""The rows of a period. A file lacks the columns that were added after it was written."""

_BOUNDS = """
SELECT count(*), epoch_ms(min(received)), epoch_ms(max(received))
FROM (SELECT least("timestamp", decided_at) AS received FROM rows)
"""
"""The times of the first and the last request, as received (`quota.records.decision.as_received`)."""

_LATE = f"""
CREATE TABLE late AS
SELECT * FROM (SELECT *, {NEWEST} AS newest FROM (SELECT "timestamp", source.* FROM rows)) WHERE newest > "timestamp"
"""  # noqa: S608 a constant
"""The requests before which a clock stepped back; found first, so that whole rows are sorted only once."""

_DAYS = """
SELECT day FROM (SELECT DISTINCT date_trunc('day', "timestamp") AS day FROM rows)
WHERE NOT EXISTS (FROM late WHERE "timestamp" < day AND newest >= day) ORDER BY day
"""
"""The beginnings of days (UTC) before which no request comes that is in order after it."""

_IN_ORDER = """
SELECT rows.* FROM rows LEFT JOIN late
ON late.topic = source.topic AND late."partition" = source."partition" AND late."offset" = source."offset"
WHERE rows."timestamp" >= '{day}'::TIMESTAMPTZ AND rows."timestamp" < '{next}'::TIMESTAMPTZ
ORDER BY coalesce(newest, rows."timestamp"), source.topic, source."partition", source."offset"
"""

_WITHDRAWN = "SELECT withdraws.decision_id FROM rows WHERE withdraws.mutations > 0"

_FOUND = 'SELECT 1 FROM rows WHERE epoch_ms("timestamp") >= $since LIMIT 1'


class AuditedRequests:
    """The rows of a period in a database; each iteration sorts them again, day by day."""

    source = "the table"
    outcome = "as recorded"

    def __init__(self, db: duckdb.DuckDBPyConnection, settings: Settings, period: Period) -> None:
        self._db, self._settings = db, settings
        ((self.count, first, last),) = db.execute(_BOUNDS).fetchall()
        self.bounds: tuple[int, int] = first, last
        """The times of the first and the last request, not after those of their decisions [epoch ms]."""
        ((late_ms,),) = db.execute('SELECT max(epoch_ms(newest) - epoch_ms("timestamp")) FROM late').fetchall()
        self._days = [day for (day,) in db.execute(_DAYS).fetchall()]
        self.period = replace(period, late_ms=late_ms or 0)
        self.withdrawn = frozenset(decision_id for (decision_id,) in db.execute(_WITHDRAWN).fetchall())

    def __iter__(self) -> Iterator[Decision]:
        """Yield the decisions by time, but those of a partition, and so of its buckets, in the partition's order."""
        return (decision for decision, _ in self.answers(with_buckets=True))

    def answers(self, *, with_buckets: bool = False) -> Iterator[tuple[Decision, int]]:
        """Yield the decisions in the same order, each with the time at which it was written to its topic [epoch ms]."""
        with read_errors(self._settings), progress(f"sorting {self.count:,} decisions") as tell:
            days = [
                self._of_day(day, following, with_buckets) for day, following in pairwise([*self._days, "infinity"])
            ]
            for number, answer in enumerate(chain.from_iterable(days)):
                if number % _STEP == 0:
                    tell(f"reading decisions: {number:,} of {self.count:,}")
                yield answer

    def _of_day(self, day: object, following: object, with_buckets: bool) -> Iterator[tuple[Decision, int]]:  # noqa: FBT001
        query = _IN_ORDER.format(day=day, next=following)
        return read_again(self._db, lambda: read_answers(self._db.sql(query), with_buckets=with_buckets))


@contextmanager
def open_requests(
    settings: Settings, period: Period, *, with_earlier: bool = False, user: str | None = None
) -> Iterator[AuditedRequests]:
    """Provide the audited requests of a period, or also those before it, or only those of a user; at least one."""
    since, until = (0 if with_earlier else period.since or 0), period.until
    with read_errors(settings):
        table = open_table(settings, DECISIONS)
    days = None if with_earlier else _date_of(period.since), _date_of(until)
    with bounded_duckdb(_MEMORY) as db, table.files(*days) as files:
        with read_errors(settings):
            _create_rows(db, files, since, MAX_EPOCH_MS if until is None else until - 1, user)
            found = db.execute(_FOUND, {"since": period.since or 0}).fetchall()
        if not found:
            why = ", run mutation-quota audit first" if period == Period() and user is None else " in that period"
            whose = "" if user is None else f" of user {quoted(user)}"
            raise NotFound(f"there are no decisions{whose}: the table has none{why}")
        yield AuditedRequests(db, settings, period)


def _create_rows(db: duckdb.DuckDBPyConnection, files: Sequence[str], first: int, last: int, user: str | None) -> None:
    columns = to_arrow_schema(DECISIONS.schema, timezone="UTC").empty_table()
    db.execute(f"SET threads = {_THREADS}")
    db.register("columns", columns)
    (db.read_parquet(files, union_by_name=True) if files else db.from_arrow(columns)).create_view("files")
    of_user = "true" if user is None else "\"user\" = '{}'".format(user.replace("'", "''"))
    db.execute(_ROWS.format(first=first, last=last, of_user=of_user))
    list(read_again(db, lambda: iter(db.execute(_LATE).fetchall())))


def read_again(db: duckdb.DuckDBPyConnection, read: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield what `read` yields. If DuckDB lacks memory, the rest is read again with more, which only that read gets."""
    count = 0
    try:
        for item in read():
            yield item
            count += 1
    except duckdb.OutOfMemoryException:
        db.execute(f"SET memory_limit = '{_MORE_MEMORY}'")
        try:
            yield from islice(read(), count, None)
        finally:
            db.execute(f"SET memory_limit = '{_MEMORY}'")


def _date_of(moment: int | None) -> date | None:
    return None if moment is None else to_datetime(moment).date()


def add_recorded_changes(quotas: CallbackTimeline, settings: Settings) -> None:
    """Add the audited quota changes to a timeline, in the log's order."""
    with read_errors(settings):
        entries = read_quota_log(settings, MAX_EPOCH_MS, with_clusters=True)
    for entry in entries:
        quotas.add(to_change(entry.record, entry.timestamp))
