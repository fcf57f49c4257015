"""The position of a record in Kafka."""

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from schemas.column import column

SOURCE = StructType(
    [
        column("topic", StringType(), "name of the topic"),
        column("partition", IntegerType(), "number of the partition"),
        column("offset", LongType(), "offset in the partition"),
    ]
)
