"""Runs upkeep in a separate process, so that its failures, such as too little memory, do not end the query."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import msgspec

from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import TABLES
from jobs.audit.upkeep.plan import UpkeepPlan
from jobs.audit.upkeep.work import UpkeepResult, maintain
from jobs.background import end_with_parent
from quota.errors import MutationQuotaError
from quota.kafka.timing import Deadline
from quota.records import codec

PART_SECONDS = 120.0
"""The maximum time for which a part of the upkeep may delay its query."""

_POLL_SECONDS = 0.2

_stops: list[threading.Event] = []
"""Events that are set when the service of this process stops."""

_COMMAND = "from jobs.audit.upkeep.child import main; main()"


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

    Raises:
        InterruptedUpkeep: the service stops.
        MutationQuotaError: it failed, had too little memory, or took too long. The table remains consistent.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    # A separate session, so that Ctrl-C interrupts only the query.
    with subprocess.Popen(
        [sys.executable, "-c", _COMMAND, str(os.getpid())],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            output, errors = _communicate(process, task)
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        return msgspec.json.decode(output, type=UpkeepResult)
    reason = _reason(process.returncode, errors)
    if process.returncode < 0:
        reason += f"; {_advice(task.plan.table)}"
    raise MutationQuotaError(f"the upkeep of {task.plan.table} failed: {reason}")


def _communicate(process: subprocess.Popen[bytes], task: UpkeepTask) -> tuple[bytes, bytes]:
    """Send the task, and return what the process prints to standard output and to standard error."""
    deadline = Deadline(PART_SECONDS)
    unsent: bytes | None = codec.encode(task)  # not on the command line, because options are secret
    while True:
        try:
            return process.communicate(unsent, timeout=_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            unsent = None  # the next call continues
            if any(each.is_set() for each in _stops):
                raise InterruptedUpkeep(
                    f"the upkeep of {task.plan.table} was interrupted, because the service stops"
                ) from None
            if deadline.has_passed:
                raise MutationQuotaError(
                    f"the upkeep of {task.plan.table} took longer than {PART_SECONDS:.0f} s; {_advice(task.plan.table)}"
                ) from None


def main() -> None:
    """Carry out the task on standard input, and print the result as JSON; the argument is the parent's process id."""
    signal.alarm(int(2 * PART_SECONDS))  # in case the parent no longer waits
    if sys.platform == "linux":
        end_with_parent(signal.SIGKILL, int(sys.argv[1]))  # another job may take over at once
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=UpkeepTask)
    if sys.platform == "linux":
        # Not RLIMIT_AS: the libraries reserve 1.8 GB of that, unused
        resource.setrlimit(resource.RLIMIT_DATA, (task.memory_bytes, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    (table,) = (each for each in TABLES if each.name == task.plan.table)
    try:
        result = maintain(TableStore(task.folder, task.options), table, task.plan, task.now)
    except MutationQuotaError as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(codec.encode(result))


def _advice(table: str) -> str:
    return f"run mutation-quota maintain {table}, which has no such limits"


def _reason(code: int, errors: bytes) -> str:
    """Return why the process failed, from its exit code and what it printed to standard error."""
    lines = errors.decode(errors="replace").strip().splitlines()
    if code < 0:  # a runtime that aborts prints the reason first
        return f"{signal.Signals(-code).name}, {lines[0] if lines else 'without a message'}"
    return lines[-1] if lines else f"exit code {code}"
