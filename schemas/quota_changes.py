"""Quota changes: the Delta table with the whole history of the compacted topic `mutation-quotas`."""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from schemas.column import column
from schemas.source import SOURCE

VERSION = 3

_CHANGE = [
    column(
        "kind",
        StringType(),
        "quota, bucket_reset, callback or cluster; cancel and callback_cancel: a scheduled change is cancelled",
    ),
    column("entity", StringType(), "entity of a quota, as JSON; null for other changes"),
    column("user", StringType(), "user of the entity: a name or '<default>'; null if it has none"),
    column("client_id", StringType(), "client-id of the entity: a name or '<default>'; null if it has none"),
    column("controller_mutation_rate", DoubleType(), "Q, the quota; null if it was removed [mutations/s]"),
    column("controller_mutation_burst", DoubleType(), "burst; null for Q * S * W [mutations]"),
    column("max_debt_ms", LongType(), "bound on debt, as a throttle time; null for none [ms]"),
    column("shadow", BooleanType(), "whether the quota is in shadow: computed and reported, but not enforced"),
    column("bucket", StringType(), "tags of the buckets that are reset, as JSON; null for other changes"),
    column("callback", StringType(), "callback class from then on; null for that of the settings"),
    column("callback_configs", MapType(StringType(), StringType()), "configs of the callback"),
    column("cluster", StringType(), "topics and the leader of each partition, as JSON"),
    column("altered_by", StringType(), "author of the change"),
    column("comment", StringType(), "reason of the change"),
    column(
        "altered_configs",
        ArrayType(StringType()),
        "configs that change, if the others are copied from the previous quota; null if all are set",
    ),
]

READ = StructType(
    [
        column("source", SOURCE, "position of the record in Kafka"),
        column("timestamp", LongType(), "time of the record [epoch ms]"),
        column(
            "effective_at",
            LongType(),
            "time from which the change takes effect, if it is later than the record [epoch ms]",
        ),
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
