"""Decisions: the records of `mutation-decisions`, and the Delta table that stores them."""

from pyspark.sql.types import DateType, StructType, TimestampType

from quota.records.decision import Decision
from schemas import versions
from schemas.columns import chosen_columns, column, columns

VERSION = versions.DECISIONS

_ID = chosen_columns(Decision, "decision_id", "source")
_TIMES = chosen_columns(Decision, "timestamp", "retry_at", "expires_at")
_REST = columns(Decision, *(field.name for field in (*_ID, *_TIMES)))

RECORD = StructType([*_ID, *_TIMES, *_REST])
"""The JSON value of a record."""

TABLE = StructType(
    [
        column("date", DateType(), "date of the request (UTC), by which the table is partitioned"),
        *_ID,
        column("timestamp", TimestampType(), "time of the request"),
        column("decided_at", TimestampType(), "time at which the decision was written to its topic"),
        column("retry_at", TimestampType(), "time at which the client may try again: timestamp + throttle_time_ms"),
        column("expires_at", TimestampType(), "time after which the mutation is no longer started; null for no limit"),
        *_REST,
    ]
)
