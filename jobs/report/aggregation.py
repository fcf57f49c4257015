"""From the tables of the audit to the figures of a report, by DuckDB."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import msgspec
import pyarrow.dataset as ds

from jobs.report import queries
from jobs.report.changes import change_of_row
from jobs.report.figures import Figures, Letters, Series
from jobs.report.period import Period
from quota.algorithms.bucket import MAX_THROTTLE_MS
from quota.errors import BadInput
from quota.records.fields import LATEST
from quota.text import format_tags, format_time, quoted

TENANTS = 20
"""So many of the busiest have figures of their own."""

_REASONS = 50
_CHANGES = 200
_MEMORY = "2GB"
"""What DuckDB may take; the rest of its work goes through a folder of its own. Jobs may run on the same machine."""

_PARAMETER = re.compile(r"\$(\w+)")

_TOTAL = -1
"""The place of all tenants together."""

_COLUMNS = {
    queries.SUMS: ("requests", "admitted", "refused", "tokens", "share", "p50", "p99"),
    queries.PEAKS: ("peak",),
    queries.THROTTLED: ("throttled",),
}
"""What the rows of a query hold, behind place and interval."""


@dataclass(frozen=True, slots=True)
class ReportScope:
    """What a report is to tell of; times are epoch ms, both within."""

    first: int | None = None
    last: int | None = None
    user: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """As the queries take them."""
        first, last = (_moment(ms) for ms in (self.first or 0, LATEST if self.last is None else self.last))
        dates = {"first_date": first.date(), "last_date": last.date(), "first_wait_date": self._first_wait.date()}
        return {"first": first, "last": last, "user": self.user} | dates

    @property
    def _first_wait(self) -> datetime:
        """What was told before ended before the first moment."""
        return _moment(max(0, (self.first or 0) - MAX_THROTTLE_MS))


def figures_of(tables: Mapping[str, ds.Dataset], wanted: ReportScope) -> Figures:
    """Add up what the tables hold.

    Args:
        tables: `decisions`, `dead_letters` and `quota_changes`.
        wanted: of which time, and whose.

    Raises:
        BadInput: there is nothing of it.
    """
    with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder, duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        db.execute(f"SET memory_limit = '{_MEMORY}'")
        db.execute("SET temp_directory = $folder", {"folder": folder})
        for name, table in tables.items():
            db.register(name, table)
        given = wanted.parameters
        _run(db, queries.TENANT_OF, {})
        for query in (queries.DECIDED, queries.WAITS, queries.LETTERS):
            _run(db, query, given)
        period = _period(db, wanted)
        cut = {"start": period.start, "width": period.width}
        for name, value in cut.items():
            db.execute(f"SET VARIABLE {name} = {value}")
        _run(db, queries.PLACES, {"tenants": TENANTS})
        _run(db, queries.PLACED, {})
        names = [name for (name,) in _run(db, queries.NAMES, {"tenants": TENANTS})]
        ((others,),) = _run(db, queries.OTHERS, {"tenants": TENANTS})
        since = max(period.start, wanted.first or 0)
        series = _series(db, period, names, others, cut | {"end": period.end, "since": since})
        held = {"first": _moment(since), "last": _moment(period.end - 1)}
        changes = _run(db, queries.CHANGES, given | held)
        columns = [name for name, *_ in db.description or ()]
        everybodys = wanted.user is None
        return Figures(
            start=period.start,
            width=period.width,
            count=period.count,
            total=series[_TOTAL],
            tenants=[series[place] for place in range(len(names))],
            others=series.get(TENANTS),
            changes=[change_of_row(**dict(zip(columns, row, strict=True))) for row in reversed(changes[:_CHANGES])],
            changes_left_out=max(0, len(changes) - _CHANGES),
            letters=_letters(db, period, cut) if everybodys else None,
            user=None if wanted.user is None else quoted(wanted.user),
        )


def _period(db: duckdb.DuckDBPyConnection, wanted: ReportScope) -> Period:
    sources = ["decided"] if wanted.user is not None else ["decided", "letters"]
    bounds = [bound for name in sources for bound in _bounds(db, name) if bound is not None]
    if not bounds:
        raise BadInput(_nothing(db, wanted))
    # What was asked for may reach far beyond what is there, and would leave few intervals to it.
    whole = [*bounds, *(bound for bound in _whole(db) if bound is not None)]
    first = min(bounds) if wanted.first is None else max(wanted.first, min(whole))
    return Period.over(first, max(bounds) if wanted.last is None else min(wanted.last, max(whole)))


def _nothing(db: duckdb.DuckDBPyConnection, wanted: ReportScope) -> str:
    """Why there is nothing to be told."""
    first, last = _whole(db)
    if first is None or last is None:
        return "nothing was audited yet: the tables are empty"
    whose = f" of user {quoted(wanted.user)}" if wanted.user is not None else ""
    since = f" from {format_time(wanted.first)} on" if wanted.first is not None else ""
    until = f" until {format_time(wanted.last + 1)}" if wanted.last is not None else ""
    return f"no decisions{whose}{since}{until}: the table holds those of {format_time(first)} to {format_time(last)}"


def _whole(db: duckdb.DuckDBPyConnection) -> tuple[int | None, int | None]:
    (found,) = db.execute("SELECT epoch_ms(min(timestamp)), epoch_ms(max(timestamp)) FROM decisions").fetchall()
    return found


def _bounds(db: duckdb.DuckDBPyConnection, name: str) -> tuple[int | None, int | None]:
    (found,) = db.table(name).aggregate("min(moment), max(moment)").fetchall()
    return found


def _series(
    db: duckdb.DuckDBPyConnection, period: Period, names: Sequence[str], others: int, cut: Mapping[str, int]
) -> dict[int, Series]:
    """By place; with `TENANTS` for all that are behind the busiest."""
    empty: dict[int, Series] = {_TOTAL: _empty(period, "All tenants", {})}
    for place, name in enumerate(names):
        tags = msgspec.json.decode(name, type=dict[str, str])
        empty[place] = _empty(period, format_tags(tags) or "no quota", tags)
    if others:
        empty[TENANTS] = _empty(period, f"{others} other{'s' if others > 1 else ''}", {})
    for query, columns in _COLUMNS.items():
        for place, at, *values in _run(db, query, cut):
            series = empty[_TOTAL if place is None else place]
            for column, value in zip(columns, values, strict=True):
                getattr(series, column)[at] = round(value, 4) if isinstance(value, float) else value
    return empty


def _empty(period: Period, name: str, tags: Mapping[str, str]) -> Series:
    nothing = [0] * period.count
    unknown = [None] * period.count
    return Series(
        name=name,
        user=tags.get("user"),
        client_id=tags.get("client-id"),
        requests=[*nothing],
        admitted=[*nothing],
        refused=[*nothing],
        peak=[*nothing],
        throttled=[*nothing],
        tokens=[*unknown],
        share=[*unknown],
        p50=[*unknown],
        p99=[*unknown],
    )


def _letters(db: duckdb.DuckDBPyConnection, period: Period, cut: Mapping[str, int]) -> list[Letters]:
    found: dict[tuple[str, str], Letters] = {}
    for topic, field, example, at, count in _run(db, queries.LETTER_COUNTS, {**cut, "reasons": _REASONS}):
        letters = found.setdefault((topic, field), Letters(topic, field, example, [0] * period.count))
        letters.counts[at] = count
    return list(found.values())


def _run(db: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    named = {name: parameters[name] for name in set(_PARAMETER.findall(query))}
    return db.execute(query, named).fetchall()


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)
