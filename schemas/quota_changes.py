"""Quota changes: the Delta table with the whole history of the compacted topic `mutation-quotas`."""

from pyspark.sql.types import DateType, LongType, MapType, StringType, StructType, TimestampType

from quota.records.quota_log import QuotaRecord
from schemas import versions
from schemas.columns import chosen_columns, column
from schemas.kafka import SOURCE

VERSION = versions.QUOTA_CHANGES

_CHANGE = [
    column(
        "kind",
        StringType(),
        "quota, bucket_reset, callback or cluster; cancel and callback_cancel: a scheduled change is cancelled",
    ),
    column("entity", StringType(), "entity of a quota, as JSON; null for other changes"),
    column("user", StringType(), "user of the entity: a name or '<default>'; null if it has none"),
    column("client_id", StringType(), "client-id of the entity: a name or '<default>'; null if it has none"),
    *chosen_columns(QuotaRecord, "controller_mutation_rate", "controller_mutation_burst", "max_debt_ms", "shadow"),
    column("bucket", StringType(), "tags of the buckets that are reset, as JSON; null for other changes"),
    column("callback", StringType(), "callback class from then on; null for that of the settings"),
    column("callback_configs", MapType(StringType(), StringType()), "configs of the callback"),
    column("cluster", StringType(), "topics and the leader of each partition, as JSON"),
    *chosen_columns(QuotaRecord, "altered_by", "comment", "altered_configs"),
]

READ = StructType(
    [
        column("source", SOURCE, "position of the record in Kafka"),
        column("timestamp", LongType(), "time of the record [epoch ms]"),
        *chosen_columns(QuotaRecord, "effective_at"),
        *_CHANGE,
        column("error", StringType(), "reason why the record is invalid; null if it is valid"),
        column("value", StringType(), "value of an invalid record; null if it is valid"),
    ]
)
"""A record of the topic as the audit reads it."""

TABLE = StructType(
    [
        column("date", DateType(), "date of the record (UTC), by which the table is partitioned"),
        column("source", SOURCE, "position of the record in Kafka"),
        column("timestamp", TimestampType(), "time of the change"),
        column("effective_at", TimestampType(), "time from which the change takes effect"),
        *_CHANGE,
    ]
)
