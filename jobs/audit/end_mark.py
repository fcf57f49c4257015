"""The mark after the records of a micro-batch, by which a worker knows that it has received all of them.

The input of a worker also ends if its task fails, for example to read from Kafka, or if the query or the JVM ends.
Arrow reports no error if that happens between two record batches, and such a worker may continue for a while.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from quota.errors import MutationQuotaError
from schemas.kafka import RECORD

_MARK = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in RECORD.fields]


def with_end_mark(batch: DataFrame) -> DataFrame:
    """Return the records of a micro-batch (`schemas.kafka.RECORD`) in one partition, and a row of nulls as the mark."""
    mark = batch.sparkSession.range(1, numPartitions=1).selectExpr(*_MARK)
    return batch.union(mark).coalesce(1)


def before_end_mark(received: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records before the mark."""
    is_complete = False
    for each in received:
        topics = each["topic"]
        marks = topics.null_count
        if is_complete or marks > 1 or (marks and topics[-1].is_valid):
            raise MutationQuotaError("the batch has records after its end mark; nothing was appended")
        is_complete = marks == 1
        yield each.slice(0, len(topics) - marks)
    if not is_complete:
        raise MutationQuotaError("the input of the batch has ended before its end mark; nothing was appended")
