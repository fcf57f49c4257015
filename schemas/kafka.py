"""Kafka records as Spark reads and writes them."""

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from quota.records.record import Source
from schemas.columns import columns

SOURCE = StructType(columns(Source))
"""The position of a record."""

RECORD = StructType(
    [
        *SOURCE.fields,
        StructField("timestamp", LongType()),  # epoch ms; null if the producer set it, because it is not trusted then
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)
"""A record as it is read."""

ANSWER = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)
"""A record as it is written; the Kafka sink takes the topic from each row."""
