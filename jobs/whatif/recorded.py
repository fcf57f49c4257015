"""Reads recorded requests with their decisions from the audit's tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType, TimestampType

from jobs.audit.quota_change_rows import row_to_record
from jobs.audit.tables.opening import open_known
from jobs.audit.tables.specs import DECISIONS, QUOTA_CHANGES, TableSpec
from jobs.spark.failures import query_errors
from jobs.spark.progress import command_session
from quota.callbacks.timeline import CallbackTimeline
from quota.records.decision import Decision
from quota.settings import Settings
from quota.timeline.change import to_change

RECORDED = StructType([StructField("decision", BinaryType())])
"""The rows of recorded decisions: the JSON of a `quota.records.decision.Decision`."""

_NAMES = "map<string, string>"


@dataclass(frozen=True, slots=True)
class RecordedRequests:
    """Requests with their decisions."""

    decisions: DataFrame
    outcome: str
    """The name of their outcome: `as recorded` or `without quotas`."""
    origin: str
    """The table or file that they were read from."""
    in_period: bool
    """Whether they are limited to a period, so that the origin may contain more."""


@contextmanager
def open_requests(
    settings: Settings,
    name: str,
    period: tuple[int | None, int | None],
    tables: Sequence[TableSpec] = (DECISIONS,),
) -> Iterator[RecordedRequests]:
    """Provide the audited requests of a period (epoch ms, without its end), in the session of a what-if.

    The tables must exist, which is checked before Spark starts.
    """
    for table in tables:
        open_known(settings, table)
    with _session(settings, name) as spark:
        yield read_audited_requests(spark, settings, *period)


@contextmanager
def _session(settings: Settings, name: str) -> Iterator[SparkSession]:
    log = settings.storage.local_folder("logs") / f"{name}.log"
    with command_session(settings, name, log, delta=True) as spark, query_errors(name):
        spark.conf.set("spark.sql.codegen.wholeStage", "true")  # worthwhile for the many rows of a table
        yield spark


def read_audited_requests(
    spark: SparkSession, settings: Settings, since: int | None = None, until: int | None = None
) -> RecordedRequests:
    """Read the audited requests of a period: from `since` on and before `until` (epoch ms)."""
    decisions = _read_table(spark, settings, DECISIONS)
    if since is not None:
        decisions = decisions.where(F.col("timestamp") >= F.timestamp_millis(F.lit(since)))
    if until is not None:
        decisions = decisions.where(F.col("timestamp") < F.timestamp_millis(F.lit(until)))
    encoded = decisions.select(_to_json(decisions).cast("binary").alias("decision"))
    return RecordedRequests(encoded, "as recorded", "the table", (since, until) != (None, None))


def add_recorded_changes(quotas: CallbackTimeline, spark: SparkSession, settings: Settings) -> None:
    """Add the audited quota changes to a timeline, in the log's order."""
    changes = _read_table(spark, settings, QUOTA_CHANGES).orderBy("source.partition", "source.offset")
    changes = changes.withColumns({name: F.unix_millis(F.col(name)) for name in _times(changes)})
    for row in (row.asDict(recursive=True) for row in changes.toLocalIterator()):
        quotas.add(to_change(row_to_record(row), row["timestamp"]))


def _to_json(decisions: DataFrame) -> Column:
    """Return the JSON of decisions from rows of `schemas.decisions.TABLE`; older rows lack some values."""
    values = {name: F.col(name) for name in Decision.__struct_fields__}
    values |= {name: F.unix_millis(values[name]) for name in _times(decisions) if name in values}
    values |= {name: F.coalesce(values[name], F.lit(False)) for name in ("exempt", "apply")}
    values["more_tags"] = F.coalesce(values["more_tags"], F.from_json(F.lit("{}"), _NAMES))
    values["quota_entity"] = F.from_json(values["quota_entity"], _NAMES)  # a map tells null from absent
    return F.to_json(F.struct(*(value.alias(name) for name, value in values.items())), {"ignoreNullFields": "false"})


def _times(rows: DataFrame) -> list[str]:
    return [field.name for field in rows.schema if isinstance(field.dataType, TimestampType)]


def _read_table(spark: SparkSession, settings: Settings, table: TableSpec) -> DataFrame:
    """Return the rows of an existing table; columns that are missing in an older version are null."""
    open_known(settings, table)
    rows = spark.read.format("delta").load(settings.storage.table(table.name))
    missing = {field.name: F.lit(None).cast(field.dataType) for field in table.schema if field.name not in rows.columns}
    return rows.withColumns(missing)
