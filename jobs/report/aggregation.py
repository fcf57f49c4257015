"""Computes the figures of a report from the audit's tables with DuckDB."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import msgspec
import pyarrow.dataset as ds

from jobs.audit.quota_changes import log_position, row_to_entry
from jobs.audit.quota_history import ChangeDescriber, DescribedChange
from jobs.audit.tables.reader import bounded_duckdb, to_datetime
from jobs.report import queries
from jobs.report.figures import Figures, Letters, Period, Series
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.errors import NotFound
from quota.records.fields import MAX_EPOCH_MS
from quota.text import format_tags, format_time, quoted

TENANTS = 20
"""The number of the busiest tenants that have their own figures."""

_REASONS = 50
_CHANGES = 200
_PARAMETER = re.compile(r"\$(\w+)")

_TOTAL = -1
"""The rank of the sum of all tenants."""

_COLUMNS = {
    queries.SUMS: ("requests", "admitted", "rejected", "tokens", "share", "p50", "p99"),
    queries.PEAKS: ("peak",),
    queries.THROTTLED: ("throttled",),
}
"""The columns of each query after rank and interval."""

_COUNTS = ("requests", "admitted", "rejected", "peak", "throttled")
_UNKNOWN = ("tokens", "share", "p50", "p99")
"""The columns that are 0, and those that are None, in an interval without decisions."""


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The decisions in a report; `first` and `last` are epoch ms and inclusive."""

    first: int | None = None
    last: int | None = None
    user: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the queries."""
        first, last = (to_datetime(ms) for ms in (self.first or 0, MAX_EPOCH_MS if self.last is None else self.last))
        # The earliest time of a request whose throttle time can end after `first`.
        first_wait = to_datetime(max(0, (self.first or 0) - MAX_THROTTLE_MS))
        dates = {"first_date": first.date(), "last_date": last.date(), "first_wait_date": first_wait.date()}
        return {"first": first, "last": last, "user": self.user} | dates


def compute_figures(tables: Mapping[str, ds.Dataset], scope: ReportScope) -> Figures:
    """Compute the figures of a report from the tables `decisions`, `dead_letters` and `quota_changes`."""
    with bounded_duckdb() as db:
        for name, table in tables.items():
            db.register(name, table)
        parameters = scope.parameters
        _run(db, queries.TENANT_OF, {})
        for query in (queries.DECIDED, queries.WAITS, queries.LETTERS):
            _run(db, query, parameters)
        changes = _changes(tables["quota_changes"], scope.user)
        period = _period(db, scope, changes)
        intervals = {"start": period.start, "width": period.width}
        for name, value in intervals.items():
            db.execute(f"SET VARIABLE {name} = {value}")
        _run(db, queries.RANKS, {"tenants": TENANTS})
        _run(db, queries.RANKED, {})
        names = [name for (name,) in _run(db, queries.NAMES, {"tenants": TENANTS})]
        ((others,),) = _run(db, queries.OTHERS, {"tenants": TENANTS})
        since = max(period.start, scope.first or 0)
        series = _series(db, period, names, others, intervals | {"end": period.end, "since": since})
        changes = [change for change in changes if since <= change.at < period.end]
        return Figures(
            start=period.start,
            width=period.width,
            count=period.count,
            total=series[_TOTAL],
            tenants=[series[rank] for rank in range(len(names))],
            others=series.get(TENANTS),
            changes=changes[-_CHANGES:],
            changes_left_out=max(0, len(changes) - _CHANGES),
            letters=_letters(db, period, intervals) if scope.user is None else None,
            user=None if scope.user is None else quoted(scope.user),
        )


def _period(db: duckdb.DuckDBPyConnection, scope: ReportScope, changes: Sequence[DescribedChange]) -> Period:
    sources = ["decided"] if scope.user is not None else ["decided", "letters"]
    bounds = [bound for name in sources for bound in _bounds(db, name) if bound is not None]
    if not bounds:
        raise _empty_error(db, scope)
    # A scope may be much longer than the recorded decisions, which would leave few intervals for them.
    recorded = [*bounds, *(bound for bound in _recorded_bounds(db) if bound is not None)]
    if scope.first is None:
        first = min(bounds)
    else:  # a quota is set before its first decision
        first = min([max(scope.first, min(recorded)), *(change.at for change in changes if change.at >= scope.first)])
    return Period.over(first, max(bounds) if scope.last is None else min(scope.last, max(recorded)))


def _empty_error(db: duckdb.DuckDBPyConnection, scope: ReportScope) -> NotFound:
    first, last = _recorded_bounds(db)
    if first is None or last is None:
        return NotFound("the audit's tables are empty")
    whose = f" of user {quoted(scope.user)}" if scope.user is not None else ""
    since = f" from {format_time(scope.first)} on" if scope.first is not None else ""
    until = f" until {format_time(scope.last + 1)}" if scope.last is not None else ""
    return NotFound(
        f"no decisions{whose}{since}{until}; there are decisions from {format_time(first)} to {format_time(last)}"
    )


def _recorded_bounds(db: duckdb.DuckDBPyConnection) -> tuple[int | None, int | None]:
    (bounds,) = db.execute("SELECT epoch_ms(min(timestamp)), epoch_ms(max(timestamp)) FROM decisions").fetchall()
    return bounds


def _bounds(db: duckdb.DuckDBPyConnection, name: str) -> tuple[int | None, int | None]:
    (bounds,) = db.table(name).aggregate("min(moment), max(moment)").fetchall()
    return bounds


def _series(
    db: duckdb.DuckDBPyConnection, period: Period, names: Sequence[str], others: int, parameters: Mapping[str, int]
) -> dict[int, Series]:
    """Return the series by rank; `TENANTS` is the rank of all tenants that are not among the busiest."""
    series: dict[int, Series] = {_TOTAL: _empty_series(period, "All tenants", {})}
    for rank, name in enumerate(names):
        tags = msgspec.json.decode(name, type=dict[str, str])
        series[rank] = _empty_series(period, format_tags(tags) or "no quota", tags)
    if others:
        series[TENANTS] = _empty_series(period, f"{others} other{'s' if others > 1 else ''}", {})
    for query, columns in _COLUMNS.items():
        for rank, at, *values in _run(db, query, parameters):
            of_rank = series[_TOTAL if rank is None else rank]
            for column, value in zip(columns, values, strict=True):
                getattr(of_rank, column)[at] = round(value, 4) if isinstance(value, float) else value
    return series


def _empty_series(period: Period, name: str, tags: Mapping[str, str]) -> Series:
    columns: dict[str, Any] = {
        column: [initial] * period.count for initial, names in ((0, _COUNTS), (None, _UNKNOWN)) for column in names
    }
    return Series(name=name, user=tags.get("user"), client_id=tags.get("client-id"), **columns)


def _changes(table: ds.Dataset, user: str | None) -> list[DescribedChange]:
    """Return the changes of a user and of all users, by the time at which they take effect."""
    rows = table.to_table(filter=ds.field("kind") != "cluster").to_pylist()  # metadata may have megabytes
    describer, changes = ChangeDescriber(), []
    for row in sorted(rows, key=log_position):
        change = describer.add(row_to_entry(row))
        if change and (user is None or row["user"] in (None, user, "<default>")):
            changes.append(change)
    return sorted(changes, key=lambda change: (change.at, change.offset))


def _letters(db: duckdb.DuckDBPyConnection, period: Period, parameters: Mapping[str, int]) -> list[Letters]:
    by_field: dict[tuple[str, str], Letters] = {}
    for topic, field, example, at, count in _run(db, queries.LETTER_COUNTS, {**parameters, "reasons": _REASONS}):
        letters = by_field.setdefault((topic, field), Letters(topic, field, example, [0] * period.count))
        letters.counts[at] = count
    return list(by_field.values())


def _run(db: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    named = {name: parameters[name] for name in set(_PARAMETER.findall(query))}
    return db.execute(query, named).fetchall()
