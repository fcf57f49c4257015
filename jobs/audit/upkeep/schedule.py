"""Schedules the regular upkeep of a query's tables: every few minutes, between two of its micro-batches."""

import logging
import time
from collections import Counter
from datetime import UTC, datetime

from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import TableSpec
from jobs.audit.upkeep.maintain import keep_days, plan_upkeep
from jobs.audit.upkeep.subprocess import PART_SECONDS, InterruptedUpkeep, UpkeepTask, run_upkeep
from jobs.storage.stored_files import check_store
from quota.errors import MutationQuotaError
from quota.kafka.timing import Deadline
from quota.settings import Settings
from quota.settings.types import in_bytes

_log = logging.getLogger(__name__)

_SECONDS_AFTER_FAILURE = 3600.0

_SECONDS_IN_ALL = 300.0
"""The maximum time for which the upkeep of all tables may delay its query. This is below the time after which a probe
takes a query for stalled. A part that might exceed it is not started."""


class Upkeep:
    """The upkeep of the audit's tables, between its micro-batches."""

    def __init__(
        self,
        settings: Settings,
        seconds: float,
        *,
        once: bool,
        failures: Counter[str] | None = None,
    ) -> None:
        """Schedule the first upkeep; `seconds` is the time between two, and 0 stands for none.

        With `once` it is due after the first batch. `failures` counts failures by table.
        """
        self._settings = settings
        self._store = TableStore.of(settings)
        self._tables = keep_days(settings)
        self._seconds = seconds
        self._due = dict.fromkeys(self._tables, time.monotonic() + (0.0 if once else seconds))
        self._failures: Counter[str] = Counter() if failures is None else failures
        self._failures.update(dict.fromkeys((table.name for table in self._tables), 0))

    def after_batch(self) -> None:
        """Maintain the tables for which it is due, as far as there is time; the rest waits for a later batch.

        An error is logged and counted, and the upkeep is retried an hour later.
        """
        if not self._seconds:
            return
        due = [table for table, due_at in self._due.items() if time.monotonic() >= due_at]
        deadline = Deadline(_SECONDS_IN_ALL)
        try:
            for table in due:
                if deadline.left() < PART_SECONDS:
                    return
                if (seconds := self._maintain(table, deadline)) is not None:
                    self._due[table] = time.monotonic() + seconds
        except InterruptedUpkeep as error:
            _log.info("%s; it continues after the next start", error)

    def _maintain(self, table: TableSpec, deadline: Deadline) -> float | None:
        """Maintain a table, and return the time until its next upkeep [s]; None if a part has to wait."""
        now = datetime.now(UTC)
        try:
            check_store(self._settings)  # deltalake would delay the query for longer
            with self._store.errors(table):  # the plan reads the log, too
                plan = plan_upkeep(self._store.open(table), table.name, self._tables[table], now)
        except MutationQuotaError as error:
            return self._retry_after(table, error)
        seconds: float = self._seconds
        memory, options = in_bytes(self._settings.spark.worker_memory), dict(self._store.options)
        for part in plan.parts:
            if deadline.left() < PART_SECONDS:
                return None
            try:
                _log.info("%s", run_upkeep(UpkeepTask(self._store.folder, options, part, now, memory)))
            except InterruptedUpkeep:
                raise
            except MutationQuotaError as error:
                seconds = self._retry_after(table, error)
        return seconds

    def _retry_after(self, table: TableSpec, error: MutationQuotaError) -> float:
        self._failures[table.name] += 1
        _log.warning("%s; retrying in an hour", error)
        return max(self._seconds, _SECONDS_AFTER_FAILURE)
