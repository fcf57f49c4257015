"""Kafka topics as streams of `schemas.kafka.RECORD`."""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from quota.admission.identity import pattern_of
from quota.kafka.requests_and_answers import MAX_REQUESTS_PER_BATCH
from quota.kafka.topics.specs import MAX_RECORD_BYTES
from quota.settings import Settings
from quota.settings.connection import check_not_owned
from schemas.kafka import RECORD

_FETCH_WAIT_MS = 1
"""Spark requests the end offsets of a topic on a connection where the last fetch may still wait: 500 ms by default."""

_POLLED_BYTES = 64 * 1024 * 1024
"""The maximum size of the records that one poll of a task returns, uncompressed [bytes].

Kafka bounds a fetch by its compressed bytes, which may be a thousandth of that.
"""

_OWN_FETCHED_BYTES = 16 * 1024
"""The maximum size of one fetch from a partition of the jobs' own topics, compressed [bytes].

Spark's producer writes answers in batches of that size or of one record, so a poll returns few of the largest answers.
A bound on the records of a poll would have to be 8, if each may be as large as an answer can be; that costs ten times
as much, because Spark requests the end offset of the partition at every poll.
"""

_LOG_APPEND_TIME = 1
"""Kafka's number for `LogAppendTime`: the broker set the record's timestamp."""


def kafka_options(settings: Settings, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return options of Spark's Kafka clients: those that connect them to the cluster, and a query's `own`."""
    own, connection = own or {}, settings.kafka.connection
    check_not_owned(
        connection.security.more_java,
        ("bootstrap.servers", *(name.removeprefix("kafka.") for name in own if name.startswith("kafka."))),
    )
    return {f"kafka.{name}": value for name, value in connection.java().items()} | dict(own)


def read_requests(spark: SparkSession, settings: Settings) -> DataFrame:
    """Stream requests from the beginning: of one topic, or of all users' own topics, including those created later."""
    user_topic_prefix = settings.topics.user_topic_prefix
    subscription = (
        {"subscribe": settings.topics.requests}
        if user_topic_prefix is None
        else {"subscribePattern": pattern_of(user_topic_prefix)}
    )
    bounds = request_bounds(MAX_REQUESTS_PER_BATCH, MAX_RECORD_BYTES)
    return read_records(spark, settings, subscription | bounds)


def read_topics(spark: SparkSession, settings: Settings, topics: Iterable[str], max_records: int) -> DataFrame:
    """Stream topics of the jobs' own records from the beginning."""
    options = {
        "subscribe": ",".join(topics),
        "maxOffsetsPerTrigger": str(max_records),
        "kafka.max.partition.fetch.bytes": str(_OWN_FETCHED_BYTES),
    }
    return read_records(spark, settings, options)


def request_bounds(max_requests: int, largest_bytes: int) -> dict[str, str]:
    """Return the options that bound a batch of requests and each poll of its tasks, which must fit into the heap."""
    polled = max(1, _POLLED_BYTES // largest_bytes)
    return {"maxOffsetsPerTrigger": str(max_requests), "kafka.max.poll.records": str(polled)}


def read_records(spark: SparkSession, settings: Settings, options: dict[str, str]) -> DataFrame:
    """Stream records from the beginning (`schemas.kafka.RECORD`); the options select the topics and bound a batch.

    `timestamp` is null if neither the broker nor the jobs have set it.
    """
    topics = settings.topics
    trusted = (F.col("timestampType") == _LOG_APPEND_TIME) | F.col("topic").isin(
        topics.decisions,
        topics.dead_letters,  # only the jobs write there
    )
    own = {
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": str(_FETCH_WAIT_MS),
        "startingOffsets": "earliest",
        "failOnDataLoss": str(settings.spark.fail_on_data_loss).lower(),
    }
    records = spark.readStream.format("kafka").options(**kafka_options(settings, own | options)).load()
    timestamp = F.when(trusted, F.unix_millis("timestamp")).alias("timestamp")
    return records.select(*(timestamp if name == "timestamp" else F.col(name) for name in RECORD.names))
