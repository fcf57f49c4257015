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


def kafka_options(settings: Settings) -> dict[str, str]:
    """How Spark's own Kafka clients reach the cluster."""
    return {f"kafka.{name}": value for name, value in settings.kafka.connection.java().items()}


def read_requests(spark: SparkSession, settings: Settings) -> DataFrame:
    """Requests from their beginning: of one topic, or of all users' own, also of new ones."""
    enforce, by_users = settings.enforce, settings.topics.by_users
    subscribed = (
        {"subscribe": settings.topics.requests} if by_users is None else {"subscribePattern": pattern_of(by_users)}
    )
    fail = enforce.fail_on_data_loss
    return _read(spark, settings, subscribed, enforce.max_requests_per_batch, fail_on_data_loss=fail)


def read_topics(
    spark: SparkSession, settings: Settings, topics: Iterable[str], max_records: int, *, fail_on_data_loss: bool
) -> DataFrame:
    """Topics from their beginning, at most so many records a batch.

    Where records are gone that were not read yet, the query fails, or goes on behind them.
    """
    return _read(spark, settings, {"subscribe": ",".join(topics)}, max_records, fail_on_data_loss=fail_on_data_loss)


def _read(
    spark: SparkSession, settings: Settings, subscribed: dict[str, str], max_records: int, *, fail_on_data_loss: bool
) -> DataFrame:
    topics = settings.topics
    trusted = (
        F.lit(topics.trust_producer_timestamps)
        | (F.col("timestampType") == _LOG_APPEND_TIME)
        | F.col("topic").isin(topics.decisions, topics.dead_letters)  # which the jobs alone write
    )
    return (
        spark.readStream.format("kafka")
        .options(**kafka_options(settings))
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
        .options(**subscribed)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_records)
        .option("failOnDataLoss", str(fail_on_data_loss).lower())
        .load()
        .withColumn("timestamp", F.when(trusted, F.unix_millis("timestamp")))
        .select(*RECORD.names)
    )
