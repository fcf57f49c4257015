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

import quota.admission.decide
import quota.algorithms.token_bucket
import quota.kafka.quota_log
from quota.callbacks.instance import close_callbacks

MEMORY_VARIABLE = "MUTATION_QUOTA_WORKER_BYTES"
"""Set in the workers' environment alone. (Spark's own setting for this prints two lines for every task.)"""


def _bound_memory(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def close_at_end() -> None:
    """Have callbacks closed when this worker ends.

    PySpark ends its workers twice over: by closing their socket, whereupon they call `os._exit`, which leaves out
    all that Python does at exit; and by a hangup, which comes at about the same time and would be faster.
    """
    if MEMORY_VARIABLE in os.environ:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
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
