"""The upkeep on demand: of whole tables, in this process, with a progress bar."""

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jobs.audit.tables.opening import TableStore, check_writable, open_known
from jobs.audit.tables.specs import TENANT_MINUTES, TableSpec
from jobs.audit.upkeep.plan import THOROUGH, UpkeepPlan, keep_days, plan_upkeep
from jobs.audit.upkeep.work import UpkeepResult, count_expired, keep_up, preview_upkeep
from jobs.storage.lease_view import Others, holder_of
from jobs.storage.stored_files import stored_files
from quota.settings import Settings


def minutes_holder(settings: Settings) -> str | None:
    """Return the process that runs `minutes`; None if none does.

    Spark commits without a condition on S3, and would overwrite another program's commit to `tenant_minutes`. This
    waits, at most as long as a lease lasts, for a process of another machine that may be dead.

    Raises:
        MutationQuotaError: the storage root cannot be read.
    """
    return holder_of(Others(stored_files(settings), TENANT_MINUTES.query, settings.storage.lease_seconds))


def preview_tables(settings: Settings, tables: Iterable[TableSpec]) -> list[UpkeepResult]:
    """Return what `maintain_tables` would do.

    Raises:
        MutationQuotaError: a table does not exist or cannot be read, or is another program's.
    """
    now = datetime.now(UTC)
    store = TableStore.of(settings)
    return [preview_upkeep(store, table, _plan(settings, table, now)) for table in tables]


def count_expired_rows(settings: Settings, tables: Iterable[TableSpec]) -> int:
    """Return the number of rows that `maintain_tables` would delete.

    Raises:
        MutationQuotaError: as for `preview_tables`.
    """
    now = datetime.now(UTC)
    store = TableStore.of(settings)
    return sum(count_expired(store, table, _plan(settings, table, now)) for table in tables)


def maintain_tables(settings: Settings, tables: Iterable[TableSpec]) -> list[UpkeepResult]:
    """Carry out the upkeep of tables, with a progress bar if standard error is a terminal.

    Raises:
        MutationQuotaError: a table does not exist, cannot be read or written, or is another program's.
    """
    now = datetime.now(UTC)
    store = TableStore.of(settings)
    plans = {table: _plan(settings, table, now) for table in tables}
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=sum(plan.steps for plan in plans.values()))
        results = []
        for table, plan in plans.items():
            progress.update(bar, description=table.name)
            results.append(keep_up(store, table, plan, now, lambda: progress.advance(bar)))
    return results


def _plan(settings: Settings, table: TableSpec, now: datetime) -> UpkeepPlan:
    opened, _ = open_known(settings, table)
    store = TableStore.of(settings)
    check_writable(store.path(table), opened)
    with store.errors(table):
        return plan_upkeep(opened, table.name, keep_days(settings)[table], now, THOROUGH)
