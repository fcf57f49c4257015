"""Decisions: the records of `mutation-decisions`, and the Delta table that stores them."""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from schemas.column import column
from schemas.source import SOURCE

VERSION = 5

_THROTTLE = "how long the bucket alone would have the client wait [ms]"
_TOLD = "how long the client was told to wait [ms]"

TOPIC = StructType(
    [
        column("name", StringType(), "of the topic"),
        column("partitions", IntegerType(), "what the topic costs: created, added or deleted [mutations]"),
        column("error_code", IntegerType(), "0 or 89, as in Kafka's protocol"),
        column("error", StringType(), "NONE or THROTTLING_QUOTA_EXCEEDED"),
        column("error_message", StringType(), "a sentence, null where it is admitted"),
        # the details of the request:
        column("count", IntegerType(), "of CREATE_PARTITIONS: the partitions in the end; null if not said"),
        column("replication_factor", IntegerType(), "of CREATE_TOPICS; null if not said, as -1 is: the cluster's"),
        column("assignments", ArrayType(ArrayType(IntegerType())), "each new partition's brokers; null if not said"),
        column("configs", MapType(StringType(), StringType()), "of CREATE_TOPICS; null if not said"),
    ]
)
"""The answer for one topic."""

SHADOW = StructType(
    [
        column("outcome", StringType(), "ADMITTED, PARTIAL, REJECTED"),
        column("error_codes", ArrayType(IntegerType()), "0 or 89, in the order of the topics"),
        column("controller_throttle_ms", IntegerType(), _THROTTLE),
        column("throttle_time_ms", IntegerType(), _TOLD.replace("was", "would have been")),
    ]
)

REPEATS = StructType(
    [
        column("decision_id", StringType(), "the decision that admitted the same request before"),
        column("topics", IntegerType(), "how many of the first topics are not charged again"),
    ]
)

OBSERVED = StructType(
    [
        column("at", LongType(), "when the broker received the request [epoch ms]"),
        column("error_codes", ArrayType(IntegerType()), "the cluster's answer for each topic, 0 or 89"),
        column("throttle_time_ms", IntegerType(), "how long the cluster told the client to wait [ms]"),
        column("took_ms", IntegerType(), "how long the cluster took to answer [ms]"),
        column("assumed", ArrayType(IntegerType()), "indexes of topics whose cost is assumed"),
    ]
)

_JUDGEMENT = [
    column("request_id", StringType(), "as the request has it"),
    column("user", StringType(), "the principal, ANONYMOUS where none was named"),
    column("client_id", StringType(), "the client-id, '<none>' where none was named"),
    column("operation", StringType(), "CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS"),
    column("validate_only", BooleanType(), "whether it only asks if it could be done: never charged, never refused"),
    column("mode", StringType(), "STRICT: refused when in debt; PERMISSIVE: only told to wait"),
    column("user_tag", StringType(), "the user that shares the bucket; empty where the user takes no part"),
    column("client_tag", StringType(), "the client-id that shares the bucket; empty where it takes no part"),
    column("more_tags", MapType(StringType(), StringType()), "tags of the bucket that a callback has besides"),
    column("callback", StringType(), "the class that judged in place of the eight levels, else null"),
    column("quota", DoubleType(), "Q, null for unlimited [mutations/s]"),
    column("burst", DoubleType(), "B, null for unlimited [mutations]"),
    column("max_debt_ms", LongType(), "the quota's bound on debt, null for none [ms]"),
    column(
        "quota_entity", StringType(), "the entity whose quota matched, in the form of the quota's record; null for none"
    ),
    column("exempt", BooleanType(), "whether the user is never throttled, by the settings"),
    column("outcome", StringType(), "ADMITTED: all topics; PARTIAL: some; REJECTED: none"),
    column("topics", ArrayType(TOPIC), "the answer for each topic, in the request's order"),
    column("controller_throttle_ms", IntegerType(), _THROTTLE),
    column("request_throttle_ms", IntegerType(), "the throttle of the request quota, as the request tells it [ms]"),
    column("throttle_time_ms", IntegerType(), _TOLD),
    column("shadow", SHADOW, "what a quota in shadow would have answered, else null"),
    column("tokens_before", DoubleType(), "K before, null for unlimited [mutations]"),
    column("tokens", DoubleType(), "K after, null for unlimited [mutations]"),
    column("apply", BooleanType(), "whether an applier carries it out, or the sender itself"),
    column("repeats", REPEATS, "what admitted the same request before, and was not charged again; else null"),
    column("observed", OBSERVED, "what the cluster answered to a request from a request log; else null"),
]

RECORD = StructType(
    [
        column("decision_id", StringType(), "topic-partition-offset of the request"),
        column("source", SOURCE, "where the request stands"),
        column("timestamp", LongType(), "of the request [epoch ms]"),
        column("retry_at", LongType(), "timestamp + throttle_time_ms [epoch ms]"),
        column("expires_at", LongType(), "when it is too late to carry it out, null for never [epoch ms]"),
        *_JUDGEMENT,
    ]
)
"""The JSON value of a record."""

TABLE = StructType(
    [
        column("date", DateType(), "of the request, UTC; the table is partitioned by it"),
        column("decision_id", StringType(), "topic-partition-offset of the request"),
        column("source", SOURCE, "where the request stands"),
        column("timestamp", TimestampType(), "of the request"),
        column("decided_at", TimestampType(), "when the decision reached its topic"),
        column("retry_at", TimestampType(), "timestamp + throttle_time_ms"),
        column("expires_at", TimestampType(), "when it was too late to carry it out, null for never"),
        *_JUDGEMENT,
    ]
)
