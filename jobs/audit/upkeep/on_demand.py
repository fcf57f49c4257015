"""Upkeep on demand: of whole tables, in this process."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from jobs.audit.tables.opening import TableStore, check_writable, open_known
from jobs.audit.tables.specs import TableSpec
from jobs.audit.upkeep.plan import THOROUGH, UpkeepPlan, keep_days, plan_upkeep
from jobs.audit.upkeep.work import UpkeepResult, count_expired, maintain, preview_upkeep
from quota.settings import Settings


@dataclass(frozen=True, slots=True)
class PlannedUpkeep:
    """The upkeep of some tables, planned once, so that the confirmed steps are carried out even after midnight."""

    store: TableStore
    now: datetime
    plans: Mapping[TableSpec, UpkeepPlan]

    @classmethod
    def of(cls, settings: Settings, tables: Iterable[TableSpec]) -> Self:
        """Plan the upkeep of tables at the current time.

        Raises:
            MutationQuotaError: a table does not exist, cannot be read, or has an unsupported version.
        """
        store, now = TableStore.of(settings), datetime.now(UTC)
        return cls(store, now, {table: _plan(settings, store, table, now) for table in tables})

    @property
    def steps(self) -> int:
        """The number of steps of `carry_out`."""
        return sum(plan.steps for plan in self.plans.values())

    def preview(self) -> list[UpkeepResult]:
        """Return what `carry_out` would do.

        Raises:
            MutationQuotaError: a table cannot be read.
        """
        return [preview_upkeep(self.store, table, plan) for table, plan in self.plans.items()]

    def count_expired_rows(self) -> int:
        """Return the number of rows that `carry_out` would delete.

        Raises:
            MutationQuotaError: a table cannot be read.
        """
        return sum(count_expired(self.store, table, plan) for table, plan in self.plans.items())

    def carry_out(self, before_table: Callable[[str], None], after_step: Callable[[], None]) -> list[UpkeepResult]:
        """Carry out the upkeep of the tables.

        Args:
            before_table: called with the name of each table before its first step.
            after_step: called after each of `steps`.

        Raises:
            MutationQuotaError: a table cannot be read or written.
        """
        results = []
        for table, plan in self.plans.items():
            before_table(table.name)
            results.append(maintain(self.store, table, plan, self.now, after_step))
        return results


def _plan(settings: Settings, store: TableStore, table: TableSpec, now: datetime) -> UpkeepPlan:
    opened, _ = open_known(settings, table)
    check_writable(store.path(table), opened)
    with store.errors(table):
        return plan_upkeep(opened, table.name, keep_days(settings)[table], now, THOROUGH)
