"""Imported once by each Python worker: its memory is bounded, and what it keeps is set aside from garbage collection.

PySpark's daemon collects garbage after every task; walking pandas and pyarrow each time
took three quarters of the workers' time. What is frozen is not walked.
"""

import gc
import os
import resource
import sys

import pandas as pd
import pyarrow as pa

import quota.admission
import quota.kafka.quota_log

MEMORY_VARIABLE = "MUTATION_QUOTA_WORKER_BYTES"
"""Set in the workers' environment alone. (Spark's own setting for this prints two lines for every task.)"""


def _bound_memory(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


if MEMORY_VARIABLE in os.environ and sys.platform == "linux":
    _bound_memory(int(os.environ[MEMORY_VARIABLE]))
gc.collect()
gc.freeze()

__all__ = ["pa", "pd", "quota"]
