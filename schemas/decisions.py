"""Decisions: the records of `mutation-decisions`, and the Delta table that keeps them."""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from schemas.source import SOURCE

VERSION = 4

_TOPICS = ArrayType(
    StructType(
        [
            StructField("name", StringType()),
            StructField("partitions", IntegerType()),  # what the topic costs, in partition mutations
            StructField("error_code", IntegerType()),  # 0 or 89, as in Kafka's protocol
            StructField("error", StringType()),  # NONE or THROTTLING_QUOTA_EXCEEDED
            StructField("error_message", StringType()),
            # what the request said besides, null where it said nothing:
            StructField("count", IntegerType()),  # CREATE_PARTITIONS: the partitions in the end
            StructField("replication_factor", IntegerType()),
            StructField("assignments", ArrayType(ArrayType(IntegerType()))),  # each partition's brokers
            StructField("configs", MapType(StringType(), StringType())),
        ]
    )
)

_SHADOW = StructType(
    [
        StructField("outcome", StringType()),
        StructField("error_codes", ArrayType(IntegerType())),  # in the order of the topics
        StructField("controller_throttle_ms", IntegerType()),
        StructField("throttle_time_ms", IntegerType()),
    ]
)

_REPEATS = StructType(
    [
        StructField("decision_id", StringType()),
        StructField("topics", IntegerType()),  # how many of the first topics
    ]
)

_JUDGEMENT = [
    StructField("request_id", StringType()),
    StructField("user", StringType()),
    StructField("client_id", StringType()),
    StructField("operation", StringType()),  # CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS
    StructField("validate_only", BooleanType()),
    StructField("mode", StringType()),  # STRICT or PERMISSIVE
    StructField("user_tag", StringType()),  # who shares the bucket; empty where that part takes no part
    StructField("client_tag", StringType()),
    StructField("more_tags", MapType(StringType(), StringType())),  # those that a callback has besides
    StructField("callback", StringType()),  # the class that judged in place of the eight levels, else null
    StructField("quota", DoubleType()),  # mutations/s, null for unlimited
    StructField("burst", DoubleType()),  # B, null for unlimited
    StructField("max_debt_ms", LongType()),  # the quota's bound on debt, null for none
    StructField("quota_entity", StringType()),  # the entity that matched, as JSON
    StructField("exempt", BooleanType()),  # whether the user is never throttled, by the settings
    StructField("outcome", StringType()),  # ADMITTED, PARTIAL, REJECTED
    StructField("topics", _TOPICS),
    StructField("controller_throttle_ms", IntegerType()),
    StructField("request_throttle_ms", IntegerType()),
    StructField("throttle_time_ms", IntegerType()),  # what the client was told
    StructField("shadow", _SHADOW),  # what a quota in shadow would have answered, else null
    StructField("tokens_before", DoubleType()),  # K before and after, null for unlimited
    StructField("tokens", DoubleType()),
    StructField("apply", BooleanType()),  # whether an applier carries it out, or the sender itself
    StructField("repeats", _REPEATS),  # what admitted the same request before, and was not charged again; else null
]

RECORD = StructType(
    [
        StructField("decision_id", StringType()),
        StructField("source", SOURCE),
        StructField("timestamp", LongType()),  # of the request, epoch ms
        StructField("retry_at", LongType()),  # epoch ms
        StructField("expires_at", LongType()),  # epoch ms, null where it is never too late to carry it out
        *_JUDGEMENT,
    ]
)
"""The JSON value of a record."""

TABLE = StructType(
    [
        StructField("date", DateType()),  # of the request, UTC; the table is partitioned by it
        StructField("decision_id", StringType()),
        StructField("source", SOURCE),  # where the request stands
        StructField("timestamp", TimestampType()),  # of the request
        StructField("decided_at", TimestampType()),  # when the decision reached its topic
        StructField("retry_at", TimestampType()),  # timestamp + throttle_time_ms
        StructField("expires_at", TimestampType()),  # when it was too late to carry it out, null for never
        *_JUDGEMENT,
    ]
)
