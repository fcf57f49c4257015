"""Where a record stands in Kafka."""

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

SOURCE = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
