"""The Delta tables as Spark DataFrames, for queries that aggregate or replay decisions."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.audit.tables.opening import open_known
from jobs.audit.tables.specs import TableSpec
from quota.settings import Settings


def read_table(spark: SparkSession, settings: Settings, table: TableSpec) -> DataFrame:
    """Return the rows of an existing table; columns that are missing in an older version are null."""
    path = _known_path(settings, table)
    return _with_all_columns(spark.read.format("delta").load(path), table)


def _known_path(settings: Settings, table: TableSpec) -> str:
    open_known(settings, table)
    return settings.storage.table(table.name)


def _with_all_columns(rows: DataFrame, table: TableSpec) -> DataFrame:
    missing = {field.name: F.lit(None).cast(field.dataType) for field in table.schema if field.name not in rows.columns}
    return rows.withColumns(missing)
