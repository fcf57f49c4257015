"""Reads recorded requests with their decisions from the audit's tables."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow.dataset as ds

from jobs.audit.decisions import Selection
from jobs.audit.quota_changes import read_quota_log
from jobs.audit.tables.reader import AuditTable, bounded_duckdb, open_table, read_errors, to_datetime
from jobs.audit.tables.specs import DECISIONS
from jobs.progress import progress
from jobs.whatif.engine import Engine
from jobs.whatif.local_engine import LocalEngine
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import NotFound
from quota.records.fields import MAX_EPOCH_MS
from quota.settings import Settings
from quota.text import plural
from quota.timeline.change import to_change

LOCAL_DECISIONS = 400_000
"""The most decisions that are replayed in this process; Spark is faster for more."""


@dataclass(frozen=True, slots=True)
class RecordedRequests:
    """Requests with their decisions."""

    engine: Engine
    """The engine, with the decisions as a table."""
    outcome: str
    """The name of their outcome: `as recorded` or `without quotas`."""
    origin: str
    """The table or file that they were read from."""
    in_period: bool
    """Whether they are limited to a period, so that the origin may contain more."""


@contextmanager
def open_requests(
    settings: Settings,
    name: str,
    period: tuple[int | None, int | None],
    *,
    with_earlier: bool = False,
) -> Iterator[RecordedRequests]:
    """Provide the audited requests of a period (epoch ms, without its end) in the engine of a what-if.

    That is this process, or Spark if they are many. `with_earlier` includes those before the period.
    """
    read = (None if with_earlier else period[0], period[1])
    in_period = period != (None, None)
    with read_errors(settings):
        table = open_table(settings, DECISIONS)
        if not _within(table, period).count_rows():
            raise no_decisions_error("the table", in_period=in_period)
        rows = _within(table, read)
        count = rows.count_rows()
    with _engine(settings, name, count, rows, read) as engine:
        yield RecordedRequests(engine, "as recorded", "the table", in_period)


def _within(table: AuditTable, period: tuple[int | None, int | None]) -> ds.Dataset:
    start, end = period
    first, last = (None if moment is None else to_datetime(moment).date() for moment in period)
    return table.dataset(first, last).filter(Selection(start=start, end=end).condition())


def no_decisions_error(origin: str, *, in_period: bool) -> NotFound:
    """Return the error for a table or file without decisions, or with none in a period."""
    return NotFound(
        f"there are no decisions to replay: {origin} has none"
        + (" in that period" if in_period else ", run mutation-quota audit first")
    )


@contextmanager
def _engine(
    settings: Settings,
    name: str,
    count: int,
    decisions: ds.Dataset,
    period: tuple[int | None, int | None],
) -> Iterator[Engine]:
    """Provide the engine for this number of decisions, and say which it is."""
    if count <= LOCAL_DECISIONS:
        print(f"{plural(count, 'decision')}, replayed without Spark", file=sys.stderr)
        with progress("reading decisions") as tell, bounded_duckdb() as db:
            with read_errors(settings):
                local = LocalEngine(db, decisions, tell)
            yield local
        return
    print(f"{count:,} decisions, replayed with Spark: they are more than {LOCAL_DECISIONS:,}", file=sys.stderr)
    from jobs.whatif.spark_engine import spark_engine  # noqa: PLC0415 it takes a second

    with spark_engine(settings, name, period) as in_spark:
        yield in_spark


def add_recorded_changes(quotas: CallbackTimeline, settings: Settings) -> None:
    """Add the audited quota changes to a timeline, in the log's order."""
    with read_errors(settings):
        entries = read_quota_log(settings, MAX_EPOCH_MS, with_clusters=True)
    for entry in entries:
        quotas.add(to_change(entry.record, entry.timestamp))
