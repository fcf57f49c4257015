"""The Delta tables of the audit: decisions, dead letters and quota changes, and the records that they store."""

from pyspark.sql.types import DateType, LongType, MapType, StringType, StructType, TimestampType

from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.records.quota_log import QUOTA_CONFIGS, QuotaRecord
from schemas.columns import chosen_columns, column, columns
from schemas.kafka import SOURCE

_ID = chosen_columns(Decision, "decision_id", "source")
_TIMES = chosen_columns(Decision, "timestamp", "retry_at", "expires_at")
_REST = columns(Decision, *(field.name for field in (*_ID, *_TIMES)))

DECISION_RECORD = StructType([*_ID, *_TIMES, *_REST])
"""The JSON value of a record of `mutation-decisions`."""

DECISIONS = StructType(
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

DEAD_LETTER_RECORD = StructType(chosen_columns(DeadLetter, "source", "timestamp", "error", "value"))
"""The JSON value of a record of `mutation-dead-letters`."""

DEAD_LETTERS = StructType(
    [
        column("date", DateType(), "date of the record (UTC), by which the table is partitioned"),
        column("source", SOURCE, "position in Kafka of the invalid request, quota or decision"),
        column(
            "timestamp", TimestampType(), "time of the record; if its producer set that, the time at which it was read"
        ),
        *chosen_columns(DeadLetter, "error", "value"),
    ]
)

_CHANGE = [
    column(
        "kind",
        StringType(),
        "quota, bucket_reset, callback or cluster; cancel and callback_cancel: a scheduled change is cancelled",
    ),
    column("entity", StringType(), "entity of a quota, as JSON; null for other changes"),
    column("user", StringType(), "user of the entity: a name or '<default>'; null if it has none"),
    column("client_id", StringType(), "client-id of the entity: a name or '<default>'; null if it has none"),
    *chosen_columns(QuotaRecord, *QUOTA_CONFIGS),
    column("bucket", StringType(), "tags of the buckets that are reset, as JSON; null for other changes"),
    column("callback", StringType(), "callback class from then on; null for that of the settings"),
    column("callback_configs", MapType(StringType(), StringType()), "configs of the callback"),
    column("cluster", StringType(), "topics and the leader of each partition, as JSON"),
    *chosen_columns(QuotaRecord, "altered_by", "comment", "altered_configs"),
]

QUOTA_LOG_RECORD = StructType(
    [
        column("source", SOURCE, "position of the record in Kafka"),
        column("timestamp", LongType(), "time of the record [epoch ms]"),
        *chosen_columns(QuotaRecord, "effective_at"),
        *_CHANGE,
        column("error", StringType(), "reason why the record is invalid; null if it is valid"),
        column("value", StringType(), "value of an invalid record; null if it is valid"),
    ]
)
"""A record of `mutation-quotas` as the audit reads it; the table has the whole history of this compacted topic."""

QUOTA_CHANGES = StructType(
    [
        column("date", DateType(), "date of the record (UTC), by which the table is partitioned"),
        column("source", SOURCE, "position of the record in Kafka"),
        column("timestamp", TimestampType(), "time of the change"),
        column("effective_at", TimestampType(), "time from which the change takes effect"),
        *_CHANGE,
    ]
)
