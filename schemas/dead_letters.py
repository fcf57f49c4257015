"""Dead letters: the records of `mutation-dead-letters`, and the Delta table that stores them."""

from pyspark.sql.types import DateType, LongType, StringType, StructType, TimestampType

from schemas.column import column
from schemas.source import SOURCE

VERSION = 1

_WHY = [
    column("error", StringType(), "a sentence that names the field and the value"),
    column("value", StringType(), "the record as it came, base64 where it is not UTF-8; null where it had none"),
]

RECORD = StructType(
    [
        column("source", SOURCE, "where the record stands that is no request"),
        column("timestamp", LongType(), "of that record; null where its producer wrote it [epoch ms]"),
        *_WHY,
    ]
)
"""The JSON value of a record."""

TABLE = StructType(
    [
        column("date", DateType(), "of the record, UTC; the table is partitioned by it"),
        column("source", SOURCE, "where the record stands that is no request (or no quota, or no decision)"),
        column("timestamp", TimestampType(), "of the record, or when it was found where its producer wrote it"),
        *_WHY,
    ]
)
