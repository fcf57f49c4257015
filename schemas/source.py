"""The position of a record in Kafka."""

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from schemas.column import column

SOURCE = StructType(
    [
        column("topic", StringType(), "the topic"),
        column("partition", IntegerType(), "its partition"),
        column("offset", LongType(), "the offset in the partition"),
    ]
)
