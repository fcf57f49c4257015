"""From records of the topics to rows of the audit tables."""

from collections.abc import Iterator
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import jobs.spark.worker  # noqa: F401 what the workers keep
from quota.algorithms.bucket import MAX_THROTTLE_MS
from quota.errors import BadRecord
from quota.records import codec
from quota.records.fields import LATEST
from quota.records.quota_log import FIELDS, CallbackRecord, ClusterRecord, QuotaRecord, ResetRecord, read_log_record
from quota.records.record import Record, Row, check_stamped, record_of
from quota.text import display_name
from quota.timeline.change import change_of
from schemas import dead_letters, decisions, quota_changes
from schemas.kafka import RECORD
from schemas.source import SOURCE


def decision_rows(records: DataFrame) -> DataFrame:
    """Decisions of their topic, for the decisions table; what is none is left to `stray_rows`."""
    return (
        _parsed(records, decisions.RECORD)
        .where("ours")
        .select("parsed.*", F.timestamp_millis(F.col("timestamp")).alias("decided_at"))
        .withColumns({name: F.timestamp_millis(F.col(name)) for name in ("retry_at", "expires_at")})
        .transform(_in_time)
        .select(*decisions.TABLE.names)
    )


def dead_letter_rows(records: DataFrame) -> DataFrame:
    """Dead letters of their topic, for the dead letters table; what is none is left to `stray_rows`."""
    return (
        _parsed(records, dead_letters.RECORD)
        .where("ours")
        # Where the bad record has no time that is to be trusted, there is the dead letter's own.
        .select(
            "parsed.source",
            "parsed.error",
            "parsed.value",
            F.coalesce("parsed.timestamp", "timestamp").alias("timestamp"),
        )
        .transform(_in_time)
        .select(*dead_letters.TABLE.names)
    )


def stray_rows(records: DataFrame, schema: StructType) -> DataFrame:
    """Records that are not as this program writes them (`schema`), for the dead letters table."""
    return (
        _parsed(records, schema)
        .where(~F.col("ours"))
        .select(
            F.struct("topic", "partition", "offset").alias("source"),
            "timestamp",
            F.concat(F.lit("value: not a record of "), F.col("topic")).alias("error"),
            F.col("value").cast("string").alias("value"),
        )
        .transform(_in_time)
        .select(*dead_letters.TABLE.names)
    )


def read_quota_changes(records: DataFrame) -> DataFrame:
    """Records of the quota topic as the job reads them (`schemas.quota_changes.READ`)."""
    return records.select(*RECORD.names).mapInArrow(_read_quota_batches, quota_changes.READ)


def quota_change_rows(changes: DataFrame) -> DataFrame:
    """Changes of quotas, for their table."""
    return (
        changes.where(F.col("error").isNull())
        .withColumn("effective_at", F.timestamp_millis(F.col("effective_at")))
        .transform(_in_time)
        .select(*quota_changes.TABLE.names)
    )


def skipped_quota_rows(changes: DataFrame) -> DataFrame:
    """Records of the quota topic that are no quotas, for the dead letters table."""
    seen = F.coalesce(F.col("timestamp"), F.unix_millis(F.current_timestamp()))  # it may have none to be trusted
    skipped = changes.where(F.col("error").isNotNull()).withColumn("timestamp", seen)
    return skipped.transform(_in_time).select(*dead_letters.TABLE.names)


def _parsed(records: DataFrame, schema: StructType) -> DataFrame:
    """Records with their JSON `parsed`, and whether they are `ours`: with a source, and with times that are some."""
    parsed = F.from_json(F.col("value").cast("string"), schema)
    times = [name for name in ("timestamp", "retry_at", "expires_at") if name in schema.names]
    # All but the last: a decision may hold for ever, and a dead letter's record have no time that is to be trusted.
    needed = [*(f"source.{part}" for part in SOURCE.names), *({"error"} & set(schema.names)), *times[:-1]]
    there = [F.col(f"parsed.{name}").isNotNull() for name in needed]
    in_time = [F.coalesce(F.col(f"parsed.{name}"), F.lit(0)).between(0, LATEST + MAX_THROTTLE_MS) for name in times]
    ours = F.coalesce(reduce(and_, [*there, *in_time]), F.lit(False))
    return records.withColumn("parsed", parsed).withColumn("ours", ours)


def _in_time(rows: DataFrame) -> DataFrame:
    """Epoch milliseconds as a timestamp, and its date to partition by."""
    return rows.withColumn("timestamp", F.timestamp_millis(F.col("timestamp"))).withColumn(
        "date", F.to_date("timestamp")
    )


def _read_quota_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(quota_changes.READ)
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_read_quota(record_of(row)) for row in batch.to_pylist()], schema)


def _read_quota(record: Record) -> Row:
    source = {"topic": record.source.topic, "partition": record.source.partition, "offset": record.source.offset}
    row: Row = {"source": source, "timestamp": record.timestamp if record.stamped else None}
    try:
        change = read_log_record(record.value, record.key)
        check_stamped(by_broker=record.stamped)
    except BadRecord as error:
        return row | {"error": str(error), "value": None if record.value is None else codec.text(record.value)}
    row["effective_at"] = change_of(change, record.timestamp).moment
    row |= {"altered_by": change.altered_by, "comment": change.comment}
    if isinstance(change, QuotaRecord | CallbackRecord):
        row["altered_configs"] = change.altered_configs
    match change:
        case QuotaRecord(entity, cancelled=cancelled):
            who = {"user": display_name(entity.user), "client_id": display_name(entity.client_id)}
            kind = {"kind": "cancel" if cancelled else "quota", "entity": entity.key.decode()}
            return row | kind | who | {name: getattr(change, name) for name in FIELDS}
        case ResetRecord(bucket):
            who = {"user": bucket.get("user"), "client_id": bucket.get("client-id")}
            return row | {"kind": "bucket_reset", "bucket": codec.encode(bucket).decode()} | who
        case CallbackRecord(setting, cancelled=cancelled):
            named = {"callback": setting.class_name, "callback_configs": setting.configs} if setting else {}
            return row | {"kind": "callback_cancel" if cancelled else "callback"} | named
        case ClusterRecord(cluster):
            return row | {"kind": "cluster", "cluster": codec.encode(cluster.topics).decode()}
