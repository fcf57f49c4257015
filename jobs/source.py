"""Kafka topics as streams of `schemas.kafka.RECORD`."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from quota.identity import pattern_of
from quota.settings import Settings
from schemas.kafka import RECORD

_FETCH_WAIT_MS = 10
"""Each batch asks for a topic's end on a connection where the last fetch may still wait: by default 500 ms."""

_LOG_APPEND_TIME = 1
"""Kafka's number for records that the broker has stamped."""


def read_requests(spark: SparkSession, settings: Settings, max_records: int) -> DataFrame:
    """Requests from their beginning, at most so many a batch: of one topic, or of all users' own, also of new ones."""
    by_users = settings.topics.by_users
    if by_users is None:
        return read_topics(spark, settings, [settings.topics.requests], max_records)
    which = {"subscribePattern": pattern_of(by_users)}
    if settings.topics.retired_users:
        which["failOnDataLoss"] = "false"  # which Spark knows for all topics only
    return _read(spark, settings, which, max_records)


def read_topics(spark: SparkSession, settings: Settings, topics: Iterable[str], max_records: int) -> DataFrame:
    """Topics from their beginning, at most so many records a batch."""
    return _read(spark, settings, {"subscribe": ",".join(topics)}, max_records)


def _read(spark: SparkSession, settings: Settings, which: dict[str, str], max_records: int) -> DataFrame:
    topics = settings.topics
    trusted = (
        F.lit(topics.trust_producer_timestamps)
        | (F.col("timestampType") == _LOG_APPEND_TIME)
        | F.col("topic").isin(topics.decisions, topics.dead_letters)  # which the jobs alone write
    )
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
        .options(**which)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_records)
        .load()
        .withColumn("timestamp", F.when(trusted, F.unix_millis("timestamp")))
        .select(*RECORD.names)
    )
