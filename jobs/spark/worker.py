"""Preparation of a Python worker: its memory limit, its log, and modules exempt from garbage collection."""

import gc
import os
import resource
import signal
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

from pyspark import TaskContext

from jobs.log_lines import QUERY_PROPERTY, SERVICE_VARIABLE, log_as_json
from quota.callbacks.instance import close_callbacks

MEMORY_VARIABLE = "MUTATION_QUOTA_WORKER_BYTES"
"""The environment variable with the address space of a worker [bytes]; set for workers only.

Spark's own setting for this prints two lines for every task.
"""


@cache
def prepare_worker(stage: str) -> None:  # noqa: ARG001 the key of the cache
    """Prepare this process for a stage, if it is a worker; a stage calls this before its first row.

    The memory is limited, and callbacks are closed when the worker exits. The stage's modules are frozen, because
    PySpark's daemon collects garbage after every task: traversing pandas and pyarrow each time took three quarters of
    the workers' time.
    """
    if MEMORY_VARIABLE not in os.environ:
        return
    _prepare_process()
    gc.collect()
    gc.freeze()


@cache
def _prepare_process() -> None:
    if sys.platform == "linux":
        limit = int(os.environ[MEMORY_VARIABLE])
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if SERVICE_VARIABLE in os.environ:
        log_as_json(os.environ[SERVICE_VARIABLE], _task)
    # PySpark terminates workers in two ways: it closes their socket, then they call `os._exit`, which skips
    # Python's exit handlers; and it sends SIGHUP, which arrives at about the same time and would be faster.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    os._exit = _exit_closing_callbacks
    traceback.print_exc = print_exc_unless_disconnected


def print_exc_unless_disconnected(*args: Any, **options: Any) -> None:  # noqa: ANN401 the options of print_exc
    """Print the exception that is being handled, unless it is that the JVM has disconnected.

    Stopping a query closes the socket of a worker in the middle of a task. PySpark's daemon would print the traceback
    of the failed write at the end of the service's log.
    """
    if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
        _print_exc(*args, **options)


def _task() -> Mapping[str, Any]:
    """Return the query and the batch of the running task."""
    task = TaskContext.get()
    known = {
        "query": task and task.getLocalProperty(QUERY_PROPERTY),
        "batch": task and task.getLocalProperty("streaming.sql.batchId"),
    }
    return {name: int(value) if name == "batch" else value for name, value in known.items() if value}


_exit = os._exit
_print_exc = traceback.print_exc


def _exit_closing_callbacks(status: int) -> NoReturn:
    close_callbacks()
    _exit(status)
