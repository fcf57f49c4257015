"""Rows of Spark that hold a Kafka record."""

from typing import Any

from quota.records.record import Record, Source

Row = dict[str, Any]


def record_of(row: Row) -> Record:
    """The record in a row of `schemas.kafka.RECORD`."""
    source = Source(row["topic"], row["partition"], row["offset"])
    stamped = row["timestamp"] is not None
    return Record(source, row["timestamp"] if stamped else 0, row["value"], row["key"], stamped)
