"""Kafka topics as streams of `schemas.kafka.RECORD`."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from quota.settings import Settings
from schemas.kafka import RECORD

_FETCH_WAIT_MS = 10
"""Each batch asks for a topic's end on a connection where the last fetch may still wait: by default 500 ms."""


def read_topics(spark: SparkSession, settings: Settings, topics: Iterable[str], max_records: int) -> DataFrame:
    """Topics from their beginning, at most so many records a batch."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_records)
        .load()
        .withColumn("timestamp", F.unix_millis("timestamp"))
        .select(*RECORD.names)
    )
