"""The Delta tables as Spark DataFrames, for queries that aggregate or replay decisions."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.audit.tables.opening import open_known
from jobs.audit.tables.specs import TableSpec
from quota.settings import Settings


def read_table(spark: SparkSession, settings: Settings, table: TableSpec) -> DataFrame:
    """Return the rows of an existing table; columns that are missing in an older version are null."""
    open_known(settings, table)
    rows = spark.read.format("delta").load(settings.storage.table(table.name))
    missing = {field.name: F.lit(None).cast(field.dataType) for field in table.schema if field.name not in rows.columns}
    return rows.withColumns(missing)
