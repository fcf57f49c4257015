"""The regular upkeep of the audit's tables: every few minutes, between two of its micro-batches.

It runs in a separate process, so that its failures, such as too little memory, do not end the query.
"""

import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import msgspec

from jobs.audit.tables import TABLES, TableSpec, TableStore
from jobs.audit.upkeep import UpkeepPlan, UpkeepResult, keep_days, maintain, plan_upkeep
from jobs.background import end_with_parent
from jobs.storage.stored_files import check_store
from quota.errors import MutationQuotaError
from quota.kafka.timing import Deadline
from quota.records import codec
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


PART_SECONDS = 120.0
"""The maximum time for which a part of the upkeep may delay its query."""

_POLL_SECONDS = 0.2

_stops: list[threading.Event] = []
"""Events that are set when the service of this process stops."""

_COMMAND = "from jobs.audit.upkeep_schedule import main; main()"


class InterruptedUpkeep(MutationQuotaError):
    """Upkeep that was ended because the service stops."""


class UpkeepTask(msgspec.Struct, frozen=True):
    """The input of the process."""

    folder: str
    options: dict[str, str]
    plan: UpkeepPlan
    now: datetime
    memory_bytes: int
    """The memory that it may allocate [bytes]."""


@contextmanager
def stopping_upkeep(stop: threading.Event) -> Iterator[None]:
    """Within the block, end running upkeep at once when `stop` is set."""
    _stops.append(stop)
    try:
        yield
    finally:
        _stops.remove(stop)


def run_upkeep(task: UpkeepTask) -> UpkeepResult:
    """Carry out the upkeep of a table in a separate process, and wait for it.

    It may fail, have too little memory or take too long (`MutationQuotaError`): the table remains consistent. When the
    service stops, it is interrupted (`InterruptedUpkeep`).
    """
    table = task.plan.table
    advice = f"run mutation-quota maintain {table}, which has no such limits"
    # A separate session, so that Ctrl-C interrupts only the query.
    with subprocess.Popen(
        [sys.executable, "-c", _COMMAND, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    ) as process:
        try:
            output, errors = _communicate(process, task, advice)
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        return msgspec.json.decode(output, type=UpkeepResult)
    lines = errors.decode(errors="replace").strip().splitlines()
    if process.returncode < 0:  # a runtime that aborts prints the reason first
        name = signal.Signals(-process.returncode).name
        reason = f"{name}, {lines[0] if lines else 'without a message'}; {advice}"
    else:
        reason = lines[-1] if lines else f"exit code {process.returncode}"
    raise MutationQuotaError(f"the upkeep of {table} failed: {reason}")


def _communicate(process: subprocess.Popen[bytes], task: UpkeepTask, advice: str) -> tuple[bytes, bytes]:
    """Send the task, and return what the process prints to standard output and to standard error."""
    deadline = Deadline(PART_SECONDS)
    unsent: bytes | None = codec.encode(task)  # not on the command line, because options are secret
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(unsent, timeout=_POLL_SECONDS)
        unsent = None  # the next call continues
        if any(stop.is_set() for stop in _stops):
            raise InterruptedUpkeep(f"the upkeep of {task.plan.table} was interrupted, because the service stops")
        if deadline.has_passed:
            raise MutationQuotaError(f"the upkeep of {task.plan.table} took longer than {PART_SECONDS:.0f} s; {advice}")


def main() -> None:
    """Carry out the task on standard input, and print the result as JSON; the argument is the parent's process id."""
    signal.alarm(int(2 * PART_SECONDS))  # in case the parent no longer waits
    if sys.platform == "linux":
        end_with_parent(signal.SIGKILL, int(sys.argv[1]))  # another job may take over at once
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=UpkeepTask)
    if sys.platform == "linux":
        # Not RLIMIT_AS: the libraries reserve 1.8 GB of that, unused
        resource.setrlimit(resource.RLIMIT_DATA, (task.memory_bytes, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    (table,) = (spec for spec in TABLES if spec.name == task.plan.table)
    try:
        result = maintain(TableStore(task.folder, task.options), table, task.plan, task.now)
    except MutationQuotaError as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(codec.encode(result))
