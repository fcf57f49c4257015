"""The requests that a what-if is about, and what was said of them: the audit's tables, or a file of requests."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StructField, StructType, TimestampType

from jobs.audit.quota_changes import record_of_change
from jobs.audit.tables import DECISIONS, QUOTA_CHANGES, read_table
from quota.callbacks.timeline import CallbackTimeline
from quota.settings.model import Settings
from quota.timeline.change import change_of
from quota.whatif.recorded import RecordedDecision

RECORDED = StructType([StructField("decision", BinaryType())])
"""The JSON of a `quota.whatif.recorded.RecordedDecision` a row."""

_ROWS_A_PARTITION = 20_000


@dataclass(frozen=True, slots=True)
class RecordedRequests:
    """Requests, what they got, and what that is called."""

    decisions: DataFrame
    """Of `RECORDED`."""
    got: str
    held_by: str
    """What it was read from."""
    of_a_time: bool
    """Whether that may hold more."""


def audited_requests(
    spark: SparkSession, settings: Settings, since: int | None = None, until: int | None = None
) -> RecordedRequests:
    """What the audit has kept of a time: from `since` on and before `until` (epoch ms).

    Raises:
        MutationQuotaError: there is no table of decisions, or none that this program knows.
    """
    decisions = read_table(spark, settings, DECISIONS)
    if since is not None:
        decisions = decisions.where(F.col("timestamp") >= F.timestamp_millis(F.lit(since)))
    if until is not None:
        decisions = decisions.where(F.col("timestamp") < F.timestamp_millis(F.lit(until)))
    texts = decisions.select(_recorded(decisions).cast("binary").alias("decision"))
    return RecordedRequests(texts, "as recorded", "the table", (since, until) != (None, None))


def requests_of_file(
    spark: SparkSession, requests: pa.Table, file: str, *, of_a_time: bool = False
) -> RecordedRequests:
    """The requests of a file, as `jobs.whatif.requests` reads them, which nobody has judged."""
    decisions = spark.createDataFrame(requests, RECORDED)
    # Spark makes a partition of each thousand rows, which would be a task each.
    decisions = decisions.coalesce(1 + requests.num_rows // _ROWS_A_PARTITION)
    return RecordedRequests(decisions, "without quotas", file, of_a_time)


def add_recorded(quotas: CallbackTimeline, spark: SparkSession, settings: Settings) -> None:
    """Add the changes of quotas that the audit has kept, in the order of their log.

    Raises:
        MutationQuotaError: there is no table of quota changes, or none that this program knows.
    """
    changes = read_table(spark, settings, QUOTA_CHANGES).orderBy("source.partition", "source.offset")
    rows = (row.asDict(recursive=True) for row in _in_ms(changes).toLocalIterator())
    for row in rows:
        quotas.add(change_of(record_of_change(row), row["timestamp"]))


def _recorded(decisions: DataFrame) -> Column:
    """The JSON of a `RecordedDecision`, of a table of `schemas.decisions.TABLE`."""
    there = [name for name in RecordedDecision.__struct_fields__ if name in decisions.columns]
    return F.to_json(F.struct(*(_plain(name, decisions.schema[name].dataType) for name in there)))


def _plain(name: str, kind: DataType) -> Column:
    return (F.unix_millis(F.col(name)) if isinstance(kind, TimestampType) else F.col(name)).alias(name)


def _in_ms(rows: DataFrame) -> DataFrame:
    times = [field.name for field in rows.schema if isinstance(field.dataType, TimestampType)]
    return rows.withColumns({name: F.unix_millis(F.col(name)) for name in times})
