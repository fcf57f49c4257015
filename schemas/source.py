"""The position of a record in Kafka."""

from pyspark.sql.types import StructType

from quota.records.record import Source
from schemas.columns import columns

SOURCE = StructType(columns(Source))
