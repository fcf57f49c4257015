"""Sorts the rows of a DataFrame by bucket for a fold: each bucket is in one partition, and in its order."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_PARTITIONS_PER_CORE = 4


def in_bucket_order(rows: DataFrame, *bucket: str) -> DataFrame:
    """Return rows (with a `timestamp` and `schemas.kafka.SOURCE`) partitioned by bucket, each bucket in its order."""
    partitions = _PARTITIONS_PER_CORE * rows.sparkSession.sparkContext.defaultParallelism
    return (
        rows.repartition(partitions, *bucket)
        .withColumn("newest", _newest_so_far(bucket))
        .sortWithinPartitions(*bucket, "newest", "topic", "partition", "offset")
    )


def _newest_so_far(bucket: Sequence[str]) -> Column:
    """Return the sort key of a bucket's rows: the newest timestamp of their topic partition so far.

    Within a partition the offset decides, even if a clock stepped back (`quota.admission.decide.in_order`).
    """
    return F.max("timestamp").over(Window.partitionBy(*bucket, "topic", "partition").orderBy("offset"))


def record_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows, at least one, as an Arrow record batch."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(*each) for each in zip(columns, schema.types, strict=True)], schema=schema
    )
