"""Dead letters: the records of `mutation-dead-letters`, and the Delta table that stores them."""

from pyspark.sql.types import DateType, StructType, TimestampType

from quota.records.dead_letter import DeadLetter
from schemas import versions
from schemas.columns import chosen_columns, column
from schemas.kafka import SOURCE

VERSION = versions.DEAD_LETTERS

RECORD = StructType(chosen_columns(DeadLetter, "source", "timestamp", "error", "value"))
"""The JSON value of a record."""

TABLE = StructType(
    [
        column("date", DateType(), "date of the record (UTC), by which the table is partitioned"),
        column("source", SOURCE, "position in Kafka of the invalid request, quota or decision"),
        column(
            "timestamp", TimestampType(), "time of the record; if its producer set that, the time at which it was read"
        ),
        *chosen_columns(DeadLetter, "error", "value"),
    ]
)
