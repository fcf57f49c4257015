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

_THROTTLE = "throttle time of the bucket alone [ms]"
_RETURNED = "throttle time that was returned to the client [ms]"

TOPIC = StructType(
    [
        column("name", StringType(), "name of the topic"),
        column("partitions", IntegerType(), "cost of the topic: partitions created, added or deleted [mutations]"),
        column("error_code", IntegerType(), "Kafka's error code: 0 or 89"),
        column("error", StringType(), "Kafka's name of the error: NONE or THROTTLING_QUOTA_EXCEEDED"),
        column("error_message", StringType(), "reason in a sentence; null if the topic is admitted"),
        # the details of the request:
        column("count", IntegerType(), "CREATE_PARTITIONS: total number of partitions afterwards; null if not given"),
        column(
            "replication_factor",
            IntegerType(),
            "CREATE_TOPICS: replication factor; null or -1 for the cluster's default",
        ),
        column("assignments", ArrayType(ArrayType(IntegerType())), "brokers of each new partition; null if not given"),
        column(
            "configs", MapType(StringType(), StringType()), "CREATE_TOPICS: configs of the topic; null if not given"
        ),
    ]
)
"""The answer for one topic."""

SHADOW = StructType(
    [
        column("outcome", StringType(), "outcome without shadow: ADMITTED, PARTIAL or REJECTED"),
        column("error_codes", ArrayType(IntegerType()), "error code of each topic, 0 or 89, in the request's order"),
        column("controller_throttle_ms", IntegerType(), _THROTTLE),
        column("throttle_time_ms", IntegerType(), "throttle time that would have been returned to the client [ms]"),
    ]
)

REPEATS = StructType(
    [
        column("decision_id", StringType(), "id of the earlier decision, which admitted the same request"),
        column("topics", IntegerType(), "number of leading topics that are not charged again"),
    ]
)

OBSERVED = StructType(
    [
        column("at", LongType(), "time at which the broker received the request [epoch ms]"),
        column("error_codes", ArrayType(IntegerType()), "the cluster's error code for each topic, 0 or 89"),
        column("throttle_time_ms", IntegerType(), "throttle time that the cluster returned to the client [ms]"),
        column("took_ms", IntegerType(), "time that the cluster took to answer [ms]"),
        column("assumed", ArrayType(IntegerType()), "indexes of topics whose cost is assumed"),
    ]
)

_DECISION = [
    column("request_id", StringType(), "the sender's id of the request"),
    column("user", StringType(), "the principal; ANONYMOUS if the request has none"),
    column("client_id", StringType(), "the client-id; '<none>' if the request has none"),
    column("operation", StringType(), "CREATE_TOPICS, CREATE_PARTITIONS or DELETE_TOPICS"),
    column("validate_only", BooleanType(), "whether the request is only validated: never charged, never refused"),
    column("mode", StringType(), "STRICT: refused while the bucket is in debt; PERMISSIVE: only throttled"),
    column("user_tag", StringType(), "user tag of the bucket; empty if it has none"),
    column("client_tag", StringType(), "client-id tag of the bucket; empty if it has none"),
    column("more_tags", MapType(StringType(), StringType()), "other tags of the bucket, set by a callback"),
    column("callback", StringType(), "callback class that resolved the quota; null for the eight levels"),
    column("quota", DoubleType(), "Q, the quota; null for unlimited [mutations/s]"),
    column("burst", DoubleType(), "B, the burst; null for unlimited [mutations]"),
    column("max_debt_ms", LongType(), "bound on debt of the quota; null for none [ms]"),
    column("quota_entity", StringType(), "entity whose quota applied, as in the quota log; null for none"),
    column("exempt", BooleanType(), "whether the settings exempt the user from throttling"),
    column("outcome", StringType(), "ADMITTED: all topics; PARTIAL: some; REJECTED: none"),
    column("topics", ArrayType(TOPIC), "answer for each topic, in the request's order"),
    column("controller_throttle_ms", IntegerType(), _THROTTLE),
    column("request_throttle_ms", IntegerType(), "throttle time of the request quota, as given in the request [ms]"),
    column("throttle_time_ms", IntegerType(), _RETURNED),
    column("shadow", SHADOW, "answer that a quota in shadow would have given; null if it is not in shadow"),
    column("tokens_before", DoubleType(), "K before the request; null for unlimited [mutations]"),
    column("tokens", DoubleType(), "K after the request; null for unlimited [mutations]"),
    column("apply", BooleanType(), "whether an applier carries the mutation out; false if the sender does"),
    column(
        "repeats", REPEATS, "earlier decision that this request repeats, so that it is not charged again; null if none"
    ),
    column("observed", OBSERVED, "answer of the cluster, for a request from a request log; null otherwise"),
]

RECORD = StructType(
    [
        column("decision_id", StringType(), "id of the decision: topic-partition-offset of the request"),
        column("source", SOURCE, "position of the request in Kafka"),
        column("timestamp", LongType(), "time of the request [epoch ms]"),
        column(
            "retry_at", LongType(), "time at which the client may try again: timestamp + throttle_time_ms [epoch ms]"
        ),
        column(
            "expires_at",
            LongType(),
            "time after which the mutation is no longer started; null for no limit [epoch ms]",
        ),
        *_DECISION,
    ]
)
"""The JSON value of a record."""

TABLE = StructType(
    [
        column("date", DateType(), "date of the request (UTC), by which the table is partitioned"),
        column("decision_id", StringType(), "id of the decision: topic-partition-offset of the request"),
        column("source", SOURCE, "position of the request in Kafka"),
        column("timestamp", TimestampType(), "time of the request"),
        column("decided_at", TimestampType(), "time at which the decision was written to its topic"),
        column("retry_at", TimestampType(), "time at which the client may try again: timestamp + throttle_time_ms"),
        column("expires_at", TimestampType(), "time after which the mutation is no longer started; null for no limit"),
        *_DECISION,
    ]
)
