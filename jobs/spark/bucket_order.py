"""Rows of buckets, to be folded as they come: each bucket in one partition and in its order."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_PARTITIONS_A_CORE = 4


def in_bucket_order(placed: DataFrame, *bucket: str) -> DataFrame:
    """Rows with a `timestamp` and the fields of `schemas.source.SOURCE`.

    Args:
        placed: the rows.
        bucket: the columns that tell a bucket.
    """
    partitions = _PARTITIONS_A_CORE * placed.sparkSession.sparkContext.defaultParallelism
    return (
        placed.repartition(partitions, *bucket)
        .withColumn("newest", newest_so_far(bucket))
        .sortWithinPartitions(*bucket, "newest", "topic", "partition", "offset")
    )


def newest_so_far(bucket: Sequence[str | Column], source: str = "") -> Column:
    """By which rows of a bucket are ordered: the newest time that their partition of the topic has had so far.

    In a partition the offset decides, also where a clock stepped back (`quota.admission.decide.in_order`).

    Args:
        bucket: the columns that tell a bucket.
        source: in which struct the fields of `schemas.source.SOURCE` are, with its dot.
    """
    of_partition = [F.col(f"{source}topic"), F.col(f"{source}partition")]
    return F.max("timestamp").over(Window.partitionBy(*bucket, *of_partition).orderBy(F.col(f"{source}offset")))


def batch_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows, of which there is at least one, as Arrow has them."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(*each) for each in zip(columns, schema.types, strict=True)], schema=schema
    )
