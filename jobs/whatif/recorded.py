"""Reads recorded requests with their decisions, from the audit's tables or from a file of requests."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType, TimestampType
from rich.console import Console
from rich.text import Text

from jobs.audit.quota_change_rows import row_to_record
from jobs.audit.tables.opening import open_known
from jobs.audit.tables.specs import DECISIONS, QUOTA_CHANGES, TableSpec
from jobs.spark.failures import query_errors
from jobs.spark.progress import command_session
from jobs.whatif.simulate import open_lines
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, MutationQuotaError
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.settings import Settings
from quota.text import plural
from quota.timeline.change import to_change
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.simulation import simulate

_log = logging.getLogger(__name__)

_ROWS_PER_BATCH = 10_000
_COLUMNS = pa.schema([("decision", pa.binary())])


def read_requests(settings: Settings, file: str, since: int | None = None, until: int | None = None) -> pa.Table:
    """Read the requests of a file of JSON lines (`-`: standard input) into rows of `jobs.whatif.recorded.RECORDED`.

    Invalid lines are skipped, and a warning is logged. The rows are packed into Arrow batches, because a million of
    them would take gigabytes as objects.
    """
    valid, errors, rows, batches = 0, 0, list[bytes](), list[pa.RecordBatch]()
    first_error = ""
    with open_lines(file) as lines, Console(stderr=True).status(Text(f"reading {file}")):
        algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, settings.quota.window)
        for answer in simulate(lines, CallbackTimeline(), algorithm, settings.topics.requests, settings.policy):
            if isinstance(answer, DeadLetter):
                errors += 1
                first_error = first_error or f"line {answer.source.offset + 1}: {answer.error}"
                continue
            valid += 1
            if (since is None or since <= answer.timestamp) and (until is None or answer.timestamp < until):
                rows.append(codec.encode(answer))
            if len(rows) == _ROWS_PER_BATCH:
                batches.append(_pack(rows))
                rows = []
    table = pa.Table.from_batches([*batches, _pack(rows)])
    if not valid:
        raise BadInput(f"{file}: " + (f"no line is a request; {first_error}" if errors else "empty"))
    if errors:
        _log.warning(
            "%s: ignored %d of %d lines, which are not requests; %s", file, errors, valid + errors, first_error
        )
    if not table.num_rows:
        raise MutationQuotaError(f"{file}: it has {plural(valid, 'request')}, and none in that period")
    return table


def _pack(rows: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(rows, pa.binary())], schema=_COLUMNS)


RECORDED = StructType([StructField("decision", BinaryType())])
"""The rows of recorded decisions: the JSON of a `quota.records.decision.Decision`."""

_NAMES = "map<string, string>"
_ROWS_PER_PARTITION = 20_000


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
    file: str | None,
    tables: Sequence[TableSpec] = (DECISIONS,),
) -> Iterator[RecordedRequests]:
    """Provide the requests of a period (epoch ms, without its end), audited or of a file, in the session of a what-if.

    The tables must exist, which is checked before Spark starts.
    """
    if file is None:
        for table in tables:
            open_known(settings, table)
        with _session(settings, name) as spark:
            yield read_audited_requests(spark, settings, *period)
    else:
        requests = read_requests(settings, file, *period)
        with _session(settings, name) as spark:
            yield load_file_requests(spark, requests, file, in_period=period != (None, None))


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


def load_file_requests(
    spark: SparkSession, requests: pa.Table, file: str, *, in_period: bool = False
) -> RecordedRequests:
    """Load the requests of a file, as returned by `jobs.whatif.recorded.read_requests`, into Spark."""
    decisions = spark.createDataFrame(requests, RECORDED)
    # Spark creates a partition, and therefore a task, for each thousand rows.
    decisions = decisions.coalesce(1 + requests.num_rows // _ROWS_PER_PARTITION)
    return RecordedRequests(decisions, "without quotas", file, in_period)


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
