"""Reads recorded requests with their decisions from the audit's tables."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def open_requests(
    settings: Settings,
    name: str,
    period: tuple[int | None, int | None],
    *,
    with_earlier: bool = False,
) -> Iterator[Engine]:
    """Provide an engine with the audited requests of a period (epoch ms, without its end), at least one.

    It is in this process, or in Spark if they are many. `with_earlier` includes those before the period.
    """
    read = (None if with_earlier else period[0], period[1])
    with read_errors(settings):
        table = open_table(settings, DECISIONS)
        if not _within(table, period).count_rows():
            why = ", run mutation-quota audit first" if period == (None, None) else " in that period"
            raise NotFound(f"there are no decisions to replay: the table has none{why}")
        decisions = _within(table, read)
        count = decisions.count_rows()
    if count <= LOCAL_DECISIONS:
        print(f"{plural(count, 'decision')}, replayed without Spark", file=sys.stderr)
        with progress("reading decisions") as tell, bounded_duckdb() as db:
            with read_errors(settings):
                local = LocalEngine(db, decisions, tell)
            yield local
        return
    print(f"{count:,} decisions, replayed with Spark: they are more than {LOCAL_DECISIONS:,}", file=sys.stderr)
    from jobs.whatif.spark_engine import spark_engine  # noqa: PLC0415 it takes a second

    with spark_engine(settings, name, read) as in_spark:
        yield in_spark


def _within(table: AuditTable, period: tuple[int | None, int | None]) -> ds.Dataset:
    start, end = period
    first, last = (None if moment is None else to_datetime(moment).date() for moment in period)
    return table.dataset(first, last).filter(Selection(start=start, end=end).condition())


def add_recorded_changes(quotas: CallbackTimeline, settings: Settings) -> None:
    """Add the audited quota changes to a timeline, in the log's order."""
    with read_errors(settings):
        entries = read_quota_log(settings, MAX_EPOCH_MS, with_clusters=True)
    for entry in entries:
        quotas.add(to_change(entry.record, entry.timestamp))
