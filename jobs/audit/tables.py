"""The Delta tables of a deployment: made where they are missing, and added to with each record once."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from jobs.storage.files import Files
from quota.errors import MutationQuotaError
from quota.settings.model import Settings
from quota.settings.storage import TABLES_FOLDER, table_path
from schemas import dead_letters, decisions, quota_changes

_log = logging.getLogger(__name__)

VERSION_PROPERTY = "mutationQuota.schemaVersion"
"""By this a table tells of which version it is."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table by the name of its folder, partitioned by `date`: of the audit, or made from what the audit keeps."""

    name: str
    schema: StructType
    version: int
    dated: bool = True
    """Whether the copies of a record have the same date: a record that has no time of its own gets that of its copy."""
    compacts: bool = False
    """Whether Delta joins its small files as it writes, some dozens at a time: who writes it has time for that."""
    query: str = "audit"
    """The query that writes it."""
    again: str = "the audit keeps anew what its topics still hold"
    """What becomes of it where it is moved away, and the query's checkpoint with it."""


DECISIONS = TableSpec("decisions", decisions.TABLE, decisions.VERSION)
DEAD_LETTERS = TableSpec("dead_letters", dead_letters.TABLE, dead_letters.VERSION, dated=False)
QUOTA_CHANGES = TableSpec("quota_changes", quota_changes.TABLE, quota_changes.VERSION)
TABLES = (DECISIONS, DEAD_LETTERS, QUOTA_CHANGES)


def missing_tables(spark: SparkSession, settings: Settings, tables: Sequence[TableSpec] = TABLES) -> list[str]:
    """The names of those that are not there yet, or not any more."""
    return [table.name for table in tables if not DeltaTable.isDeltaTable(spark, table_path(settings, table.name))]


def prepare_tables(spark: SparkSession, settings: Settings, tables: Sequence[TableSpec] = TABLES) -> None:
    """Make missing tables, check those that are there, and give those of an older version the columns they lack.

    Raises:
        MutationQuotaError: something else stands in a table's place, or a version that this program cannot go on with.
    """
    files = Files(spark, settings)
    for table in tables:
        path = table_path(settings, table.name)
        try:
            if DeltaTable.isDeltaTable(spark, path):
                _check(spark, table, path)
            else:
                _remove_unfinished(files, table)
                _create(spark, table, path)
        except AnalysisException as error:
            raise _foreign(table, path, str(error).splitlines()[0]) from None


def read_table(spark: SparkSession, settings: Settings, table: TableSpec) -> DataFrame:
    """A table that is there; columns that an older version lacks are null.

    Raises:
        MutationQuotaError: it is not there, something else is, or a version that this program does not know.
    """
    return _with_all_columns(spark.read.format("delta").load(_path_of_known(spark, settings, table)), table)


def follow_table(spark: SparkSession, settings: Settings, table: TableSpec) -> DataFrame:
    """The same as a stream: all that is there, then what is added. What is deleted or changed is passed over.

    Raises:
        MutationQuotaError: as above.
    """
    added = spark.readStream.format("delta").option("skipChangeCommits", True)
    return _with_all_columns(added.load(_path_of_known(spark, settings, table)), table)


def newest_batches(spark: SparkSession, settings: Settings) -> dict[str, int]:
    """By the id of the query that wrote it, the newest batch that the tables hold."""
    newest: dict[str, int] = {}
    for table in TABLES:
        path = table_path(settings, table.name)
        jvm: Any = spark._jvm  # noqa: SLF001 Delta's Python has no way to what `txnAppId` left
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # noqa: SLF001
        written = log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty()).transactions().iterator()
        while written.hasNext():
            pair = written.next()
            query = pair._1().partition(":")[0]  # noqa: SLF001 Scala's name for it; once the path stood behind it
            newest[query] = max(newest.get(query, -1), pair._2())  # noqa: SLF001
    return newest


def _remove_unfinished(files: Files, table: TableSpec) -> None:
    """Remove the log that a full disk left behind before the first commit: Delta would make no table beside it."""
    log = f"{TABLES_FOLDER}/{table.name}/_delta_log"
    names = files.names(log)
    if all(name.startswith((".", "_")) for name in names):
        for name in names:
            files.remove(f"{log}/{name}")
        files.remove_empty(log)  # and not what another audit has committed meanwhile


def _create(spark: SparkSession, table: TableSpec, path: str) -> None:
    made = DeltaTable.createIfNotExists(spark).location(path).addColumns(table.schema).partitionedBy("date")
    made = made.property(VERSION_PROPERTY, str(table.version))
    (made.property("delta.autoOptimize.autoCompact", "true") if table.compacts else made).execute()


def _check(spark: SparkSession, table: TableSpec, path: str) -> None:
    there = DeltaTable.forPath(spark, path)
    version = version_of(table, path, _properties(there))
    other = _unlike(table.schema, there.toDF().schema)
    lacking = [name for name, kind in other.items() if kind is None]
    if len(lacking) < len(other) or (lacking and version == table.version):
        raise _foreign(table, path, f"version {version} with other or missing columns: {', '.join(other)}")
    if version < table.version:
        _upgrade(spark, table, path, version, lacking)


def _path_of_known(spark: SparkSession, settings: Settings, table: TableSpec) -> str:
    path = table_path(settings, table.name)
    if not DeltaTable.isDeltaTable(spark, path):
        raise no_table(path)
    version_of(table, path, _properties(DeltaTable.forPath(spark, path)))
    return path


def _with_all_columns(rows: DataFrame, table: TableSpec) -> DataFrame:
    lacking = {field.name: F.lit(None).cast(field.dataType) for field in table.schema if field.name not in rows.columns}
    return rows.withColumns(lacking)


def _properties(there: DeltaTable) -> dict[str, str]:
    properties: dict[str, str] = there.detail().select("properties").collect()[0][0]
    return properties


def _upgrade(spark: SparkSession, table: TableSpec, path: str, version: int, lacking: list[str]) -> None:
    nothing = spark.createDataFrame([], table.schema)
    nothing.write.format("delta").mode("append").option("mergeSchema", True).save(path)
    name = path.replace("`", "``")
    spark.sql(f"ALTER TABLE delta.`{name}` SET TBLPROPERTIES ('{VERSION_PROPERTY}' = '{table.version}')")
    _log.info(
        "the table %s is of version %d now, it was of version %d; new columns: %s",
        path,
        table.version,
        version,
        ", ".join(lacking) or "none",
    )


def _unlike(expected: DataType, found: DataType, name: str = "") -> dict[str, DataType | None]:
    """What is not as expected, by its path: columns and fields of another type, and None for those that are missing.

    More columns than expected, and another order, are no matter.
    """
    if isinstance(expected, StructType) and isinstance(found, StructType):
        other: dict[str, DataType | None] = {}
        types = {field.name: field.dataType for field in found}
        for field in expected:
            path = f"{name}.{field.name}" if name else field.name
            if field.name in types:
                other |= _unlike(field.dataType, types[field.name], path)
            else:
                other[path] = None
        return other
    if isinstance(expected, ArrayType) and isinstance(found, ArrayType):
        return _unlike(expected.elementType, found.elementType, f"{name}.element")
    return {} if expected == found else {name: found}


def no_table(path: str) -> MutationQuotaError:
    """What is said where a table is to be read that is not there."""
    return MutationQuotaError(
        f"there is no table {path}: mutation-quota audit makes it, or storage.root is another deployment's"
    )


def _foreign(table: TableSpec, path: str, reason: str) -> MutationQuotaError:
    return MutationQuotaError(
        f"what stands in {path} is no table of this version ({reason}); move it away, and checkpoints/{table.query} "
        f"with it ({table.again}), or set another storage.root"
    )


def version_of(table: TableSpec, path: str, properties: Mapping[str, str]) -> int:
    """The version of a table that is there, from its properties.

    Raises:
        MutationQuotaError: it has none, or that of a newer program.
    """
    noted = properties.get(VERSION_PROPERTY, "")
    if not noted.isdecimal():
        raise _foreign(table, path, f"it has no {VERSION_PROPERTY}")
    if int(noted) > table.version:
        raise MutationQuotaError(
            f"the table {path} was written by a newer program, as version {noted} (this one writes version "
            f"{table.version}); start that one again, or move the table and checkpoints/{table.query} away "
            f"({table.again})"
        )
    return int(noted)


def append_new(rows: DataFrame, path: str, batch_id: int, *, dated: bool) -> None:
    """Append rows to a table, each `source` once: neither doubled in the batch nor there already.

    The look at what is there reads no more than the files that hold the rows' offsets, and where
    copies of a record have the same date (`dated`), their dates.
    """
    bounds = rows.agg(F.min("date"), F.max("date"), F.min("source.offset"), F.max("source.offset")).first()
    if bounds is None or bounds[0] is None:
        return
    first_date, last_date, first_offset, last_offset = bounds
    # The query's id goes with its checkpoint, so that batches of a checkpoint begun anew are not taken for known ones.
    query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    there = rows.sparkSession.read.format("delta").load(path)
    there = there.where(F.col("source.offset").between(first_offset, last_offset))
    if dated:
        there = there.where(F.col("date").between(first_date, last_date))
    (
        rows.dropDuplicates(["source"])
        .join(there.select("source"), on="source", how="left_anti")
        .select(*rows.columns)
        .coalesce(1)
        .write.format("delta")
        .mode("append")
        # A batch that comes again after a crash is known by these, also to an old process that still hangs on.
        .option("txnAppId", query)
        .option("txnVersion", batch_id)
        .save(path)
    )
