"""Kafka records as Spark reads and writes them."""

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

RECORD = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", LongType()),  # epoch ms, of the topic
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
