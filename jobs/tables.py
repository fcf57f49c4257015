"""The Delta tables of a deployment: made where they are missing, and added to with each record once."""

from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.storage import table_path
from quota.errors import MutationQuotaError
from quota.settings import Settings
from schemas import dead_letters, decisions, quota_changes

_VERSION_PROPERTY = "mutationQuota.schemaVersion"


@dataclass(frozen=True, slots=True)
class AuditTable:
    """A table by the name of its folder, partitioned by `date`; `source` tells its records apart."""

    name: str
    schema: StructType
    version: int


DECISIONS = AuditTable("decisions", decisions.TABLE, decisions.VERSION)
DEAD_LETTERS = AuditTable("dead_letters", dead_letters.TABLE, dead_letters.VERSION)
QUOTA_CHANGES = AuditTable("quota_changes", quota_changes.TABLE, quota_changes.VERSION)
TABLES = (DECISIONS, DEAD_LETTERS, QUOTA_CHANGES)


def prepare_tables(spark: SparkSession, settings: Settings) -> None:
    """Make missing tables, and check those that are there.

    Raises:
        MutationQuotaError: something else stands in a table's place.
    """
    for table in TABLES:
        path = table_path(settings, table.name)
        try:
            (
                DeltaTable.createIfNotExists(spark)
                .location(path)
                .addColumns(table.schema)
                .partitionedBy("date")
                .property(_VERSION_PROPERTY, str(table.version))
                .execute()
            )
            found = spark.read.format("delta").load(path).schema.fields
        except AnalysisException as error:
            raise _foreign(path, str(error).splitlines()[0]) from None
        missing = [field.name for field in table.schema if field not in found]
        if missing:
            raise _foreign(path, f"other or missing columns: {', '.join(missing)}")


def _foreign(path: str, reason: str) -> MutationQuotaError:
    return MutationQuotaError(
        f"what stands in {path} is no table of this version ({reason}); move it away, or set another storage.root"
    )


def append_new(rows: DataFrame, path: str, batch_id: int) -> None:
    """Append rows to a table, each `source` once: neither doubled in the batch nor there already.

    Copies of a record are identical, so they have the same date; the look at what is there
    reads no more than the files that hold these dates and offsets.
    """
    bounds = rows.agg(F.min("date"), F.max("date"), F.min("source.offset"), F.max("source.offset")).first()
    if bounds is None or bounds[0] is None:
        return
    first_date, last_date, first_offset, last_offset = bounds
    # The query's id goes with its checkpoint, so that batches of a checkpoint begun anew are not taken for known ones.
    query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    there = (
        rows.sparkSession.read.format("delta")
        .load(path)
        .where(F.col("date").between(first_date, last_date))
        .where(F.col("source.offset").between(first_offset, last_offset))
        .select("source")
    )
    (
        rows.dropDuplicates(["source"])
        .join(there, on="source", how="left_anti")
        .select(*rows.columns)
        .coalesce(1)
        .write.format("delta")
        .mode("append")
        # A batch that comes again after a crash is known by these, also to an old process that still hangs on.
        .option("txnAppId", f"{query}:{path}")
        .option("txnVersion", batch_id)
        .save(path)
    )
