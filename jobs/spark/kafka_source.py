"""Kafka topics as streams of `schemas.kafka.RECORD`."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from quota.admission.identity import pattern_of
from quota.kafka.topics.specs import MAX_QUOTA_BYTES, max_answer_bytes, max_record_bytes
from quota.settings.model import Settings
from schemas.kafka import RECORD

_FETCH_WAIT_MS = 10
"""Each batch asks for a topic's end on a connection where the last fetch may still wait: by default 500 ms."""

_POLLED_BYTES = 64 * 1024 * 1024
"""The most that one poll of a task brings: a fetch is bounded by its bytes as compressed, which may be a thousandth."""

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
    bounds = batch_bounds(enforce.max_requests_per_batch, max_record_bytes(settings))
    return read_records(spark, settings, subscribed | bounds, fail_on_data_loss=enforce.fail_on_data_loss)


def read_topics(
    spark: SparkSession, settings: Settings, topics: Iterable[str], max_records: int, *, fail_on_data_loss: bool
) -> DataFrame:
    """Topics of the jobs' own records from their beginning, at most so many a batch.

    Where records are gone that were not read yet, the query fails, or goes on behind them.
    """
    largest = max(max_answer_bytes(settings), MAX_QUOTA_BYTES)
    bounded = {"subscribe": ",".join(topics), **batch_bounds(max_records, largest)}
    return read_records(spark, settings, bounded, fail_on_data_loss=fail_on_data_loss)


def batch_bounds(most: int, largest: int) -> dict[str, str]:
    """Options for at most so many records a batch, none larger than so many bytes: a poll must fit into the heap."""
    return {"maxOffsetsPerTrigger": str(most), "kafka.max.poll.records": str(max(1, _POLLED_BYTES // largest))}


def read_records(
    spark: SparkSession, settings: Settings, bounded: dict[str, str], *, fail_on_data_loss: bool
) -> DataFrame:
    """What these options of Spark's Kafka source name and bound, from its beginning."""
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
        .options(**bounded)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(fail_on_data_loss).lower())
        .load()
        .withColumn("timestamp", F.when(trusted, F.unix_millis("timestamp")))
        .select(*RECORD.names)
    )
