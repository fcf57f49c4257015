"""The Delta tables in Spark: created where they are missing, and appended to with each record once."""

import logging
from collections.abc import Sequence
from typing import Any

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from jobs.audit.specs import TABLES, VERSION_PROPERTY, TableSpec, missing_error
from jobs.storage.files import Files
from quota.settings import Settings
from quota.settings.storage import table_folder

_log = logging.getLogger(__name__)


def missing_tables(spark: SparkSession, settings: Settings, tables: Sequence[TableSpec] = TABLES) -> list[str]:
    """Return the names of the tables that do not exist."""
    return [table.name for table in tables if not DeltaTable.isDeltaTable(spark, settings.storage.table(table.name))]


def prepare_tables(spark: SparkSession, settings: Settings, tables: Sequence[TableSpec] = TABLES) -> None:
    """Create missing tables, check existing ones, and add the columns that an older version lacks.

    Raises:
        MutationQuotaError: a path holds something else, or a version that this program cannot continue.
    """
    files = Files(spark, settings)
    for table in tables:
        path = settings.storage.table(table.name)
        try:
            if DeltaTable.isDeltaTable(spark, path):
                _check(spark, table, path)
            else:
                _remove_unfinished(files, table)
                _create(spark, table, path)
        except AnalysisException as error:
            raise table.foreign_error(path, str(error).splitlines()[0]) from None


def read_table(spark: SparkSession, settings: Settings, table: TableSpec) -> DataFrame:
    """Return the rows of an existing table; columns that an older version lacks are null.

    Raises:
        MutationQuotaError: it does not exist, is no table, or has a version that this program does not know.
    """
    return _with_all_columns(spark.read.format("delta").load(_checked_path(spark, settings, table)), table)


def follow_table(spark: SparkSession, settings: Settings, table: TableSpec) -> DataFrame:
    """Return an existing table as a stream: its rows, then the appended ones. Deletions and updates are skipped.

    Raises:
        MutationQuotaError: as for `read_table`.
    """
    appended = spark.readStream.format("delta").option("skipChangeCommits", True)
    return _with_all_columns(appended.load(_checked_path(spark, settings, table)), table)


def newest_batches(spark: SparkSession, settings: Settings) -> dict[str, int]:
    """Return the newest batch in the audit's tables, by the id of the query that wrote it."""
    newest: dict[str, int] = {}
    for table in TABLES:
        path = settings.storage.table(table.name)
        jvm: Any = spark._jvm  # noqa: SLF001 Delta's Python API does not show the transactions of `txnAppId`
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # noqa: SLF001
        written = log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty()).transactions().iterator()
        while written.hasNext():
            pair = written.next()
            query = pair._1().partition(":")[0]  # noqa: SLF001 a Scala tuple; older programs appended the path
            newest[query] = max(newest.get(query, -1), pair._2())  # noqa: SLF001
    return newest


def append_new(rows: DataFrame, path: str, batch_id: int, *, dated: bool) -> None:
    """Append rows to a table, each `source` once: duplicates in the batch and rows of the table are left out.

    The table is read only where its files hold the offsets of the rows and, if copies of a record have the same date
    (`dated`), their dates.
    """
    bounds = rows.agg(F.min("date"), F.max("date"), F.min("source.offset"), F.max("source.offset")).first()
    if bounds is None or bounds[0] is None:
        return
    first_date, last_date, first_offset, last_offset = bounds
    # The query's id belongs to its checkpoint, so batches of a new checkpoint are not taken for known ones.
    query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    stored = rows.sparkSession.read.format("delta").load(path)
    stored = stored.where(F.col("source.offset").between(first_offset, last_offset))
    if dated:
        stored = stored.where(F.col("date").between(first_date, last_date))
    (
        rows.dropDuplicates(["source"])
        .join(stored.select("source"), on="source", how="left_anti")
        .select(*rows.columns)
        .coalesce(1)
        .write.format("delta")
        .mode("append")
        # By these Delta skips a batch that is repeated after a crash, also for an old process that still runs.
        .option("txnAppId", query)
        .option("txnVersion", batch_id)
        .save(path)
    )


def _remove_unfinished(files: Files, table: TableSpec) -> None:
    """Remove the log that a full disk left before the first commit: Delta would not create a table next to it."""
    log = f"{table_folder(table.name)}/_delta_log"
    names = files.names(log)
    if all(name.startswith((".", "_")) for name in names):
        for name in names:
            files.remove(f"{log}/{name}")
        files.remove_empty(log)  # and not a commit that another audit has made meanwhile


def _create(spark: SparkSession, table: TableSpec, path: str) -> None:
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(table.schema).partitionedBy("date")
    builder = builder.property(VERSION_PROPERTY, str(table.version))
    (builder.property("delta.autoOptimize.autoCompact", "true") if table.compacts else builder).execute()


def _check(spark: SparkSession, table: TableSpec, path: str) -> None:
    stored = DeltaTable.forPath(spark, path)
    version = table.read_version(path, _properties(stored))
    differences = _differences(table.schema, stored.toDF().schema)
    missing = [name for name, kind in differences.items() if kind is None]
    if len(missing) < len(differences) or (missing and version == table.version):
        raise table.foreign_error(path, f"version {version} with other or missing columns: {', '.join(differences)}")
    if version < table.version:
        _upgrade(spark, table, path, version, missing)


def _checked_path(spark: SparkSession, settings: Settings, table: TableSpec) -> str:
    path = settings.storage.table(table.name)
    if not DeltaTable.isDeltaTable(spark, path):
        raise missing_error(path)
    table.read_version(path, _properties(DeltaTable.forPath(spark, path)))
    return path


def _with_all_columns(rows: DataFrame, table: TableSpec) -> DataFrame:
    missing = {field.name: F.lit(None).cast(field.dataType) for field in table.schema if field.name not in rows.columns}
    return rows.withColumns(missing)


def _properties(table: DeltaTable) -> dict[str, str]:
    properties: dict[str, str] = table.detail().select("properties").collect()[0][0]
    return properties


def _upgrade(spark: SparkSession, table: TableSpec, path: str, version: int, missing: list[str]) -> None:
    no_rows = spark.createDataFrame([], table.schema)
    no_rows.write.format("delta").mode("append").option("mergeSchema", True).save(path)
    name = path.replace("`", "``")
    spark.sql(f"ALTER TABLE delta.`{name}` SET TBLPROPERTIES ('{VERSION_PROPERTY}' = '{table.version}')")
    _log.info(
        "the table %s is of version %d now, it was of version %d; new columns: %s",
        path,
        table.version,
        version,
        ", ".join(missing) or "none",
    )


def _differences(expected: DataType, found: DataType, name: str = "") -> dict[str, DataType | None]:
    """Return the type of each column and field that differs, by its path; None where it is missing.

    Additional columns and another order are no differences.
    """
    if isinstance(expected, StructType) and isinstance(found, StructType):
        differences: dict[str, DataType | None] = {}
        types = {field.name: field.dataType for field in found}
        for field in expected:
            path = f"{name}.{field.name}" if name else field.name
            if field.name in types:
                differences |= _differences(field.dataType, types[field.name], path)
            else:
                differences[path] = None
        return differences
    if isinstance(expected, ArrayType) and isinstance(found, ArrayType):
        return _differences(expected.elementType, found.elementType, f"{name}.element")
    return {} if expected == found else {name: found}
