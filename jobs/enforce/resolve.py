"""The resolve stage: converts Kafka's records to packed requests with their bucket and quota, in one Arrow stage."""

from collections.abc import Iterator
from functools import partial
from operator import attrgetter

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.enforce.packing import pack_request
from jobs.spark.worker import prepare_worker
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.kafka.quotas.log import KafkaQuotas
from quota.records.record import Record
from schemas.buckets import RESOLVED
from schemas.kafka import RECORD


def resolve_requests(records: DataFrame, quotas: KafkaQuotas, policy: Policy) -> DataFrame:
    """Return each record (`schemas.kafka.RECORD`) with its bucket and quota (`schemas.buckets.RESOLVED`)."""
    bounded = records.select(*_bounded(policy.max_bytes))
    return bounded.mapInArrow(partial(_resolve_batches, quotas, policy), RESOLVED)


def _bounded(max_bytes: int) -> list[Column]:
    """Return the columns of a record; key and value are cut one byte above the limit, which still shows a violation."""
    return [
        F.substring(name, 1, max_bytes + 1).alias(name) if name in {"key", "value"} else F.col(name)
        for name in RECORD.names
    ]


def _resolve_batches(
    source: KafkaQuotas, policy: Policy, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    prepare_worker(__name__)
    schema = to_arrow_schema(RESOLVED)
    for batch in batches:
        # Sorted by time, because a callback cannot go back to earlier quotas.
        records = sorted(map(Record.of_row, batch.to_pylist()), key=attrgetter("timestamp"))
        if records:
            quotas = source.read_until(records[-1].timestamp)
            packed = [pack_request(record, resolve(record, quotas, policy)) for record in records]
            yield pa.RecordBatch.from_pylist(packed, schema)
