"""Read and resolve: from Kafka's records to requests with their bucket and quota, in one Arrow stage."""

from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from jobs.enforce.packed import to_row
from jobs.spark.worker import close_at_end
from quota.admission.policy import Policy
from quota.admission.resolve import Quotas, resolve
from quota.callbacks.instance import CALLBACK_FAILED
from quota.records.record import record_of
from schemas.buckets import RESOLVED
from schemas.kafka import RECORD

_JUDGED = StructType([*RESOLVED.fields, StructField("error", StringType())])
"""With why it is a dead letter, else null, which is counted only."""

OBSERVED = "resolved"
"""What a query's progress calls the numbers of each batch: `dead_letters`, and `callback_errors` among them."""


class QuotaSource(Protocol):
    """Where the quotas come from; it goes to the workers with each batch, so it is small when pickled."""

    def known(self, until: int) -> Quotas:
        """Quotas with all changes stamped up to `until` (epoch ms)."""


def resolve_requests(records: DataFrame, source: QuotaSource, policy: Policy) -> DataFrame:
    """Find bucket and quota of each record (`schemas.kafka.RECORD`): `schemas.buckets.RESOLVED`."""
    bounded = records.select(*_bounded(policy.max_bytes))
    judged = bounded.mapInArrow(partial(_resolve_batches, source, policy), _JUDGED)
    failed = F.count_if(F.col("error").startswith(CALLBACK_FAILED))
    dead = F.count_if(F.col("error").isNotNull())
    return judged.observe(OBSERVED, dead.alias("dead_letters"), failed.alias("callback_errors")).select(*RESOLVED.names)


def _bounded(max_bytes: int) -> list[Column]:
    """The record, of whose key and value nothing goes to Python that is behind what may be judged."""
    return [
        F.substring(name, 1, max_bytes + 1).alias(name) if name in {"key", "value"} else F.col(name)
        for name in RECORD.names
    ]


def _resolve_batches(
    source: QuotaSource, policy: Policy, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    close_at_end()
    schema = to_arrow_schema(_JUDGED)
    for batch in batches:
        # By time, because a callback can be told of changes only forwards.
        records = sorted(map(record_of, batch.to_pylist()), key=attrgetter("timestamp"))
        if records:
            quotas = source.known(records[-1].timestamp)
            resolved = [to_row(record, resolve(record, quotas, policy)) for record in records]
            yield pa.RecordBatch.from_pylist(resolved, schema)
