"""Imported once by each Python worker: its memory is bounded, and what it keeps is set aside from garbage collection.

PySpark's daemon collects garbage after every task; walking pandas and pyarrow each time
took three quarters of the workers' time. What is frozen is not walked.
"""

import gc
import os
import resource
import signal
import sys
from typing import NoReturn

import pandas as pd
import pyarrow as pa

import quota.admission
import quota.kafka.quota_log
from quota.callbacks.running import close_callbacks

MEMORY_VARIABLE = "MUTATION_QUOTA_WORKER_BYTES"
"""Set in the workers' environment alone. (Spark's own setting for this prints two lines for every task.)"""


def _bound_memory(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def close_at_end() -> None:
    """Have callbacks closed when this worker ends: by a hangup, whose handler is reset before each task.

    Or, where its socket is closed first, by `os._exit`, which leaves out all that Python does at exit.
    """
    if MEMORY_VARIABLE in os.environ:
        signal.signal(signal.SIGHUP, lambda *_: os._exit(0))
        os._exit = _closing_exit


def _closing_exit(status: int) -> NoReturn:
    close_callbacks()
    _exit(status)


_exit = os._exit

if MEMORY_VARIABLE in os.environ and sys.platform == "linux":
    _bound_memory(int(os.environ[MEMORY_VARIABLE]))
gc.collect()
gc.freeze()

__all__ = ["pa", "pd", "quota"]
