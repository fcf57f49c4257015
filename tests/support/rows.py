"""Rows of the enforcing query: Kafka records as Spark reads them, and the packed columns of the stateful stage."""

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from schemas.kafka import RECORD


def kafka_rows(values, *, timestamps=None, partition=0, first_offset=0, topic="mutation-requests"):
    """Return a row of `schemas.kafka.RECORD` for each value; its key names the offset."""
    return [
        (
            topic,
            partition,
            first_offset + number,
            (timestamps[number] if timestamps else 0),
            f"key-{first_offset + number}".encode(),
            value,
        )
        for number, value in enumerate(values)
    ]


def record_batch(rows):
    """Return rows of `schemas.kafka.RECORD` as a stage of Arrow gets them."""
    return pa.RecordBatch.from_pylist(
        [dict(zip(RECORD.names, row, strict=True)) for row in rows], to_arrow_schema(RECORD)
    )


def frame(spark, rows):
    """Return a static frame of `schemas.kafka.RECORD`."""
    return spark.createDataFrame(rows, RECORD)


def pack_request(row, error=None, resolution=None):
    """Pack a row of `schemas.kafka.RECORD` with its error or its resolution (JSON), as the stateful stage reads it."""
    return msgspec.msgpack.encode([*row, error, None if resolution is None else resolution.encode()])
