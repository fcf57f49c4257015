"""Dead letters: the records of `mutation-dead-letters`, and the Delta table that keeps them."""

from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from schemas.source import SOURCE

VERSION = 1

RECORD = StructType(
    [
        StructField("source", SOURCE),
        StructField("timestamp", LongType()),  # of the record, epoch ms; null where its producer wrote it
        StructField("error", StringType()),
        StructField("value", StringType()),
    ]
)
"""The JSON value of a record."""

TABLE = StructType(
    [
        StructField("date", DateType()),  # of the record, UTC; the table is partitioned by it
        StructField("source", SOURCE),  # where the record stands that is no request (or no quota, or no decision)
        StructField("timestamp", TimestampType()),  # of the record, or when it was found where its producer wrote it
        StructField("error", StringType()),  # a sentence that names the field and the value
        StructField("value", StringType()),  # the record as it came, base64 where it is not UTF-8
    ]
)
