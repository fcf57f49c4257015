"""Dead letters: the records of `mutation-dead-letters`, and the Delta table that stores them."""

from pyspark.sql.types import DateType, LongType, StringType, StructType, TimestampType

from schemas.column import column
from schemas.source import SOURCE

VERSION = 1

_WHY = [
    column("error", StringType(), "reason in a sentence, with the invalid field and its value"),
    column("value", StringType(), "value of the invalid record, in base64 if it is not UTF-8; null if it had none"),
]

RECORD = StructType(
    [
        column("source", SOURCE, "position of the invalid record in Kafka"),
        column("timestamp", LongType(), "time of that record; null if its producer set it [epoch ms]"),
        *_WHY,
    ]
)
"""The JSON value of a record."""

TABLE = StructType(
    [
        column("date", DateType(), "date of the record (UTC), by which the table is partitioned"),
        column("source", SOURCE, "position in Kafka of the invalid request, quota or decision"),
        column(
            "timestamp", TimestampType(), "time of the record; if its producer set that, the time at which it was read"
        ),
        *_WHY,
    ]
)
