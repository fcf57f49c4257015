"""The rows of the audit's tables, from the records of the topics."""

from collections.abc import Iterator
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jobs.audit.quota_change_rows import record_to_row
from jobs.spark.worker import prepare_worker
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.errors import BadRecord
from quota.records import codec
from quota.records.fields import MAX_EPOCH_MS
from quota.records.quota_log import read_quota_log_record
from quota.records.record import Record
from schemas import dead_letters, decisions, quota_changes
from schemas.kafka import RECORD
from schemas.source import SOURCE


def decision_rows(records: DataFrame) -> DataFrame:
    """Return the rows of the decisions table, from records of the decisions topic; `foreign_rows` returns the rest."""
    return (
        _parsed(records, decisions.RECORD)
        .where("ours")
        .select("parsed.*", F.timestamp_millis(F.col("timestamp")).alias("decided_at"))
        .withColumns({name: F.timestamp_millis(F.col(name)) for name in ("retry_at", "expires_at")})
        .transform(_with_date)
        .select(*decisions.TABLE.names)
    )


def dead_letter_rows(records: DataFrame) -> DataFrame:
    """Return the rows of the dead letters table, from records of its topic; `foreign_rows` returns the rest."""
    return (
        _parsed(records, dead_letters.RECORD)
        .where("ours")
        # Where the timestamp of the invalid record is not trusted, the dead letter's own is used.
        .select(
            "parsed.source",
            "parsed.error",
            "parsed.value",
            F.coalesce("parsed.timestamp", "timestamp").alias("timestamp"),
        )
        .transform(_with_date)
        .select(*dead_letters.TABLE.names)
    )


def foreign_rows(records: DataFrame, schema: StructType) -> DataFrame:
    """Return the rows of the dead letters table for records that this program does not write (`schema`)."""
    return (
        _parsed(records, schema)
        .where(~F.col("ours"))
        .select(
            F.struct("topic", "partition", "offset").alias("source"),
            "timestamp",
            F.concat(F.lit("value: not a record of "), F.col("topic")).alias("error"),
            F.col("value").cast("string").alias("value"),
        )
        .transform(_with_date)
        .select(*dead_letters.TABLE.names)
    )


def read_quota_changes(records: DataFrame) -> DataFrame:
    """Parse records of the quota topic (`schemas.quota_changes.READ`)."""
    return records.select(*RECORD.names).mapInArrow(_read_quota_batches, quota_changes.READ)


def quota_change_rows(changes: DataFrame) -> DataFrame:
    """Return the rows of the quota changes table, from `read_quota_changes`."""
    return (
        changes.where(F.col("error").isNull())
        .withColumn("effective_at", F.timestamp_millis(F.col("effective_at")))
        .transform(_with_date)
        .select(*quota_changes.TABLE.names)
    )


def skipped_quota_rows(changes: DataFrame) -> DataFrame:
    """Return the rows of the dead letters table for invalid records of the quota topic."""
    timestamp = F.coalesce(F.col("timestamp"), F.unix_millis(F.current_timestamp()))  # null if it is not trusted
    skipped = changes.where(F.col("error").isNotNull()).withColumn("timestamp", timestamp)
    return skipped.transform(_with_date).select(*dead_letters.TABLE.names)


def _parsed(records: DataFrame, schema: StructType) -> DataFrame:
    """Add the records' JSON as `parsed`, and `ours`: whether it has a source and valid timestamps."""
    parsed = F.from_json(F.col("value").cast("string"), schema)
    times = [name for name in ("timestamp", "retry_at", "expires_at") if name in schema.names]
    # The last time may be null: a decision may never expire, and a dead letter's record may have no trusted timestamp.
    required = [*(f"source.{part}" for part in SOURCE.names), *({"error"} & set(schema.names)), *times[:-1]]
    present = [F.col(f"parsed.{name}").isNotNull() for name in required]
    in_range = [
        F.coalesce(F.col(f"parsed.{name}"), F.lit(0)).between(0, MAX_EPOCH_MS + MAX_THROTTLE_MS) for name in times
    ]
    ours = F.coalesce(reduce(and_, [*present, *in_range]), F.lit(False))
    return records.withColumn("parsed", parsed).withColumn("ours", ours)


def _with_date(rows: DataFrame) -> DataFrame:
    """Turn `timestamp` from epoch ms into a timestamp, and add its `date`, by which the tables are partitioned."""
    return rows.withColumn("timestamp", F.timestamp_millis(F.col("timestamp"))).withColumn(
        "date", F.to_date("timestamp")
    )


def _read_quota_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    prepare_worker(__name__)
    schema = to_arrow_schema(quota_changes.READ)
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_read_quota(Record.of_row(row)) for row in batch.to_pylist()], schema)


def _read_quota(record: Record) -> dict[str, Any]:
    source = {"topic": record.source.topic, "partition": record.source.partition, "offset": record.source.offset}
    row: dict[str, Any] = {"source": source, "timestamp": record.timestamp if record.stamped else None}
    try:
        change = read_quota_log_record(record.value, record.key)
        record.check_stamped()
    except BadRecord as error:
        return row | {"error": str(error), "value": None if record.value is None else codec.text(record.value)}
    return row | record_to_row(change, record.timestamp)
