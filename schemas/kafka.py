"""Kafka records as Spark reads and writes them."""

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from schemas.source import SOURCE

RECORD = StructType(
    [
        *SOURCE.fields,
        StructField("timestamp", LongType()),  # epoch ms; null where it is its producer's own, and not to be trusted
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)
"""What is read of a record."""

ANSWER = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)
"""What is written: the Kafka sink takes the topic from each row."""
