"""Imported once by each Python worker, with all that it will need, and then set aside from garbage collection.

PySpark's daemon collects garbage after every task; walking pandas and pyarrow each time
took three quarters of the workers' time. What is frozen is not walked.
"""

import gc

import pandas as pd
import pyarrow as pa

import quota.admission
import quota.kafka.quota_log

gc.collect()
gc.freeze()

__all__ = ["pa", "pd", "quota"]
