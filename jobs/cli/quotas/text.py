"""Quotas and plans as data and as text."""

from collections.abc import Iterable, Sequence

from jobs.cli.output import print_table, table_time
from quota.planning.plan import Step
from quota.planning.quota_file import QuotaEntry, QuotaFile
from quota.records.entity import QuotaEntity
from quota.records.quota_log import RATE_CONFIG, Quota, Window
from quota.text import display_name, format_duration
from quota.timeline.change import QuotaChange
from schemas.documents.quotas import PlannedChange

_COLUMNS = ("USER", "CLIENT-ID", "RATE/S", "BURST", "MAX DEBT", "SHADOW")
_NUMBERS = ("RATE/S", "BURST", "MAX DEBT")


def quota_file(configured: Iterable[QuotaChange], scheduled: Iterable[QuotaChange]) -> QuotaFile:
    """Return the quotas in force, followed by the scheduled changes."""
    return QuotaFile(
        [
            *(_entry(change, since=change.moment) for change in configured),
            *(_entry(change, effective_at=change.moment) for change in scheduled),
        ]
    )


def print_quotas(configured: Sequence[QuotaChange], scheduled: Sequence[QuotaChange], window: Window) -> None:
    """Print a table of the quotas in force, and one of the scheduled changes."""
    if configured:
        _print_table("SINCE", configured)
    if scheduled:
        print("Scheduled changes:")
        _print_table("FROM", scheduled)
    if any(change.quota and change.quota.burst is None for change in (*configured, *scheduled)):
        print(f"BURST -: the default, {format_default_burst(window)}; MAX DEBT -: no bound")


def _print_table(time: str, changes: Iterable[QuotaChange]) -> None:
    columns = (*_COLUMNS, time)
    print_table(
        columns,
        map(_row, changes),
        numbers=_NUMBERS,
        sentences=columns[:2],
        optional=(time, "SHADOW", "MAX DEBT", "BURST"),
    )


def _entry(change: QuotaChange, *, since: int | None = None, effective_at: int | None = None) -> QuotaEntry:
    configs = change.quota.configs if change.quota else {RATE_CONFIG: None}
    return QuotaEntry(change.entity, **configs, since=since, effective_at=effective_at)


def entity_cells(entity: QuotaEntity) -> list[str]:
    """Return the user and the client-id of an entity as cells of a table."""
    return [display_name(name) or "-" for name in (entity.user, entity.client_id)]


def limit_cells(quota: Quota) -> list[str]:
    """Return the rate, the burst and the longest debt of a quota as cells of a table."""
    debt_ms = quota.max_debt_ms
    limits = ("-" if limit is None else f"{limit:.10g}" for limit in (quota.rate, quota.burst))
    return [*limits, "-" if debt_ms is None else format_duration(debt_ms)]


def _row(change: QuotaChange) -> list[str]:
    quota = change.quota
    limits = ["removed", "-", "-", "-"] if quota is None else [*limit_cells(quota), "yes" if quota.shadow else "no"]
    return [*entity_cells(change.entity), *limits, table_time(change.moment)]


def format_default_burst(window: Window) -> str:
    """Return in words the burst of a quota without its own."""
    return f"{window.num} x {window.size_seconds} s of the rate"


def planned_change(step: Step, effective_at: int | None = None) -> PlannedChange:
    """Return a step of a plan as data; it takes effect at `effective_at` (epoch ms) unless it has its own time."""
    moment = effective_at if step.record.effective_at is None else step.record.effective_at
    return PlannedChange(step.record.entity, step.before, step.after, moment)
