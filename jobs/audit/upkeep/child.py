"""Upkeep in a process of its own: whatever it meets, such as too little memory, does not end the query beside it."""

import os
import resource
import signal
import subprocess
import sys
from datetime import datetime

import msgspec

from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import TABLES, TENANT_MINUTES
from jobs.audit.upkeep.plan import UpkeepPlan
from jobs.audit.upkeep.work import UpkeepResult, keep_up
from quota.errors import MutationQuotaError
from quota.records import codec

_SECONDS = 120.0
"""How long upkeep may delay its query."""

_COMMAND = "from jobs.audit.upkeep.child import main; main()"


class UpkeepTask(msgspec.Struct, frozen=True):
    """What the process is to do."""

    folder: str
    options: dict[str, str]
    plan: UpkeepPlan
    now: datetime
    memory_bytes: int
    """The memory that it may allocate [bytes]."""


def run_upkeep(task: UpkeepTask) -> UpkeepResult:
    """Carry out the upkeep of a table in a process of its own, and wait for it.

    Raises:
        MutationQuotaError: it failed, had too little memory, or took too long. The table is as good as before.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _COMMAND],
            input=codec.encode(task),  # secrets do not belong on a command line
            capture_output=True,
            env=environment,
            timeout=_SECONDS,
            start_new_session=True,  # Ctrl-C is for the query alone
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MutationQuotaError(f"the upkeep of {task.plan.table} took longer than {_SECONDS:.0f} s") from None
    if done.returncode == 0:
        return msgspec.json.decode(done.stdout, type=UpkeepResult)
    raise MutationQuotaError(f"the upkeep of {task.plan.table} failed: {_reason(done.returncode, done.stderr)}")


def main() -> None:
    """Carry out the task on standard input, and print the result as JSON."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=UpkeepTask)
    if sys.platform == "linux":  # not RLIMIT_AS: the libraries reserve 1.8 GB of that, unused
        resource.setrlimit(resource.RLIMIT_DATA, (task.memory_bytes, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    (table,) = (each for each in (*TABLES, TENANT_MINUTES) if each.name == task.plan.table)
    try:
        result = keep_up(TableStore(task.folder, task.options), table, task.plan, task.now)
    except MutationQuotaError as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(codec.encode(result))


def _reason(code: int, errors: bytes) -> str:
    """Return why the process failed, from its exit code and what it printed to standard error."""
    lines = errors.decode(errors="replace").strip().splitlines()
    if code < 0:  # a runtime that aborts says first why
        return f"{signal.Signals(-code).name}, {lines[0] if lines else 'without a message'}"
    return lines[-1] if lines else f"exit code {code}"
