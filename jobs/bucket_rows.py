"""Rows of buckets, to be folded as they come: each bucket in one partition and in its order."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_PARTITIONS_A_CORE = 4


def in_order(placed: DataFrame, *bucket: str) -> DataFrame:
    """Rows with a `timestamp` and the fields of `schemas.source.SOURCE`.

    Args:
        placed: the rows.
        bucket: the columns that tell a bucket.
    """
    partitions = _PARTITIONS_A_CORE * placed.sparkSession.sparkContext.defaultParallelism
    # In a partition of the topic the offset decides, also where a clock stepped back (`quota.admission.in_order`).
    newest = F.max("timestamp").over(Window.partitionBy(*bucket, "topic", "partition").orderBy("offset"))
    return (
        placed.repartition(partitions, *bucket)
        .withColumn("newest", newest)
        .sortWithinPartitions(*bucket, "newest", "topic", "partition", "offset")
    )


def batch_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows, of which there is at least one, as Arrow has them."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(*each) for each in zip(columns, schema.types, strict=True)], schema=schema
    )
