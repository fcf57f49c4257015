"""Appends the records of the topics to the audit's tables, each record once. This code runs in a Python worker."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql.pandas.types import to_arrow_type

from jobs.audit.end_mark import before_end_mark
from jobs.audit.rows import Rows, dead_letter_rows, decision_rows, quota_change_rows
from jobs.audit.spool import RowSpool
from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import DEAD_LETTERS, DECISIONS, QUOTA_CHANGES, TABLES, TableSpec
from jobs.spark.worker import prepare_worker
from quota.settings import Settings
from schemas.source import SOURCE

_COMMITTED_BYTES = 32 * 1024 * 1024
"""The size of the rows that one commit appends [bytes]; deltalake needs eight times as much memory."""

_ANY_AUDIT = "mutation-quota-audit"
"""A transaction id that all audits share. Delta rejects the later of two concurrent commits with the same id, even if
their checkpoints are different."""

_ATTEMPTS = 5
"""The number of attempts at a commit that may conflict with others, as those of `maintain` or an operator's DELETE."""

_SOURCE = to_arrow_type(SOURCE)

_Key = tuple[str, int, int]


class MicroBatch(NamedTuple):
    """A micro-batch of a query."""

    query_id: str
    """The id in the query's checkpoint."""
    number: int


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """The settings of a worker: the tables, and the topics of the answers; all other topics contain quotas."""

    store: TableStore
    decisions_topic: str
    dead_letters_topic: str

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the configuration of a deployment."""
        return cls(TableStore.of(settings), settings.topics.decisions, settings.topics.dead_letters)


def append_records(
    config: AuditConfig, batch: MicroBatch, records: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Append a micro-batch to the tables; records that a table already contains are skipped."""
    prepare_worker(__name__)
    with BatchRows(config) as rows:
        for each in before_end_mark(records):
            rows.add(each)
        rows.append(batch)
    yield from ()


class BatchRows:
    """The rows of a micro-batch, by their table."""

    def __init__(self, config: AuditConfig) -> None:
        """Start without rows."""
        self._config = config
        self._rows = {table: RowSpool(table) for table in TABLES}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for spool in self._rows.values():
            spool.close()

    def add(self, records: pa.RecordBatch) -> None:
        """Convert records (`schemas.kafka.RECORD`) to rows of their tables."""
        for topic in pc.unique(records["topic"]).to_pylist():
            of_topic = records.filter(pc.equal(records["topic"], topic))
            if topic == self._config.decisions_topic:
                self._add(DECISIONS, decision_rows(of_topic))
            elif topic == self._config.dead_letters_topic:
                self._add(DEAD_LETTERS, dead_letter_rows(of_topic))
            else:
                self._add(QUOTA_CHANGES, quota_change_rows(of_topic))

    def append(self, batch: MicroBatch) -> None:
        """Append the rows to the tables, one commit or more for each table that has rows."""
        for table, spool in self._rows.items():
            if not spool.is_empty:
                _append_new(self._config.store, table, spool, batch)

    def _add(self, table: TableSpec, rows: Rows) -> None:
        self._rows[table].add(rows.own)
        self._rows[DEAD_LETTERS].add(rows.dead_letters)


def _append_new(store: TableStore, table: TableSpec, spool: RowSpool, batch: MicroBatch) -> None:
    """Append the rows that the table does not contain; retry if another writer has changed it meanwhile."""
    with store.errors(table):
        for _ in range(_ATTEMPTS - 1):
            with suppress(CommitFailedError):
                return _try_append(store, table, spool, batch)
        return _try_append(store, table, spool, batch)


def _try_append(store: TableStore, table: TableSpec, spool: RowSpool, batch: MicroBatch) -> None:
    stored = store.open(table)
    newest = stored.transaction_version(batch.query_id)
    if newest is not None and newest >= batch.number:
        return  # the batch runs again after a crash
    known = _stored_keys(stored, spool, dated=table.dated)
    part: list[pa.RecordBatch] = []
    part_bytes = 0
    for rows in spool.read():
        new = _new(rows, known)
        if part and part_bytes + new.nbytes > _COMMITTED_BYTES:
            _commit(stored, part, MicroBatch(batch.query_id, batch.number - 1))  # the last complete batch
            part, part_bytes = [], 0
        part.append(new)
        part_bytes += new.nbytes
    _commit(stored, part, batch)


def _stored_keys(stored: DeltaTable, spool: RowSpool, *, dated: bool) -> set[_Key]:
    """Return the keys of those rows that the table already contains.

    Only files with the offsets of the rows are read and, if copies of a record have the same date (`dated`), with their
    dates.
    """
    offsets = spool.offsets
    bounds = pc.min_max(offsets)
    predicate = f"source['offset'] BETWEEN {bounds['min']} AND {bounds['max']}"
    if dated:
        predicate += f" AND date BETWEEN '{min(spool.dates)}' AND '{max(spool.dates)}'"
    found: set[_Key] = set()
    for batch in pa.RecordBatchReader.from_stream(stored.scan(columns=["source"], predicate=predicate)):
        sources = batch["source"].cast(_SOURCE)  # DataFusion's views of strings cannot be filtered
        found.update(_keys(sources.filter(pc.is_in(sources.field("offset"), offsets))))
    return found


def _commit(table: DeltaTable, rows: Sequence[pa.RecordBatch], written: MicroBatch) -> None:
    """Append rows, and mark that the table contains the micro-batches up to `written`."""
    marks = [Transaction(written.query_id, written.number), Transaction(_ANY_AUDIT, written.number)]
    write_deltalake(
        table,
        pa.Table.from_batches(rows),
        mode="append",
        schema_mode="merge",  # an operator may have added columns
        commit_properties=CommitProperties(app_transactions=marks),
        # That lists the whole log, at most 19,000 files, with each commit. Upkeep's own commits do it.
        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
    )


def _new(rows: pa.RecordBatch, known: set[_Key]) -> pa.RecordBatch:
    """Return the rows whose source is not in `known`, each once, and add their sources to it."""
    new = []
    for key in _keys(rows["source"]):
        new.append(key not in known)
        known.add(key)
    return rows.filter(pa.array(new, pa.bool_()))


def _keys(sources: pa.StructArray) -> Iterator[_Key]:
    return zip(*(sources.field(name).to_pylist() for name in SOURCE.names), strict=True)
