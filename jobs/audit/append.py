"""Records of the topics appended to the audit's tables, each record once. All of it runs in a worker."""

import os
from collections.abc import Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from jobs.audit.rows import Rows, dead_letter_rows, decision_rows, quota_change_rows
from jobs.audit.tables.opening import open_delta, table_errors
from jobs.audit.tables.specs import DEAD_LETTERS, DECISIONS, QUOTA_CHANGES, TABLES, TableSpec
from jobs.spark.worker import prepare_worker
from quota.settings import Settings
from schemas.source import SOURCE

_SPOOLED_BYTES = 64 * 1024 * 1024
"""The rows of a batch that are held in memory; more are held in a file, because records may be large."""

_COMMITTED_BYTES = 32 * 1024 * 1024
"""The rows that are appended by one commit; deltalake needs eight times as much memory."""

_SOURCE = to_arrow_type(SOURCE)

_Key = tuple[str, int, int]


class MicroBatch(NamedTuple):
    """A micro-batch of a query."""

    query_id: str
    """The id in the query's checkpoint."""
    number: int


def append_records(
    settings: Settings, batch: MicroBatch, records: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Append a micro-batch to the tables; records that they hold already are left out.

    Args:
        settings: the settings.
        batch: the micro-batch; a table that holds it is left as it is.
        records: its records (`schemas.kafka.RECORD`).

    Returns:
        Nothing.

    Raises:
        MutationQuotaError: a table cannot be read or written.
    """
    prepare_worker(__name__)
    with BatchRows(settings) as rows:
        for each in records:
            rows.add(each)
        rows.append(batch)
    yield from ()


class BatchRows:
    """The rows of a micro-batch, by their table."""

    def __init__(self, settings: Settings) -> None:
        """Hold no rows yet."""
        self._settings = settings
        self._rows = {table: _Spool(table) for table in TABLES}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for spool in self._rows.values():
            spool.close()

    def add(self, records: pa.RecordBatch) -> None:
        """Add the rows of records (`schemas.kafka.RECORD`)."""
        topics = self._settings.topics
        for topic in pc.unique(records["topic"]).to_pylist():
            of_topic = records.filter(pc.equal(records["topic"], topic))
            if topic == topics.decisions:
                self._add(DECISIONS, decision_rows(of_topic))
            elif topic == topics.dead_letters:
                self._add(DEAD_LETTERS, dead_letter_rows(of_topic))
            else:
                self._add(QUOTA_CHANGES, quota_change_rows(of_topic))

    def append(self, batch: MicroBatch) -> None:
        """Append the rows to the tables."""
        for table, spool in self._rows.items():
            if not spool.is_empty:
                _append_new(self._settings, table, spool, batch)

    def _add(self, table: TableSpec, rows: Rows) -> None:
        self._rows[table].add(rows.own)
        self._rows[DEAD_LETTERS].add(rows.dead_letters)


class _Spool:
    """Rows of a table; beyond some size they are held in a file."""

    def __init__(self, table: TableSpec) -> None:
        self.schema = to_arrow_schema(table.schema, timezone="UTC")
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
        self._file = SpooledTemporaryFile(_SPOOLED_BYTES, dir=folder or None)  # noqa: SIM115 closed by `close`
        self._writer = pa.ipc.new_stream(self._file, self.schema)
        self._sources: list[pa.ChunkedArray] = []
        self._dates: set[str] = set()

    @property
    def is_empty(self) -> bool:
        return not self._sources

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._writer.write_table(rows)
            self._sources.append(rows["source"])
            self._dates.update(map(str, pc.unique(rows["date"]).to_pylist()))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Return the rows; none can be added after that."""
        self._writer.close()
        self._file.seek(0)
        return iter(pa.ipc.open_stream(self._file))

    def stored(self, table: DeltaTable, *, dated: bool) -> set[_Key]:
        """Return the keys of rows that the table holds as well.

        It is read only where its files hold the offsets of the rows and, if copies of a record have the same date
        (`dated`), their dates.
        """
        offsets = pc.unique(pa.chunked_array([pc.struct_field(each, "offset") for each in self._sources]))
        bounds = pc.min_max(offsets)
        predicate = f"source['offset'] BETWEEN {bounds['min']} AND {bounds['max']}"
        if dated:
            predicate += f" AND date BETWEEN '{min(self._dates)}' AND '{max(self._dates)}'"
        found: set[_Key] = set()
        for batch in pa.RecordBatchReader.from_stream(table.scan(columns=["source"], predicate=predicate)):
            sources = batch["source"].cast(_SOURCE)  # DataFusion's views of strings cannot be filtered
            found.update(_keys(sources.filter(pc.is_in(sources.field("offset"), offsets))))
        return found

    def close(self) -> None:
        self._file.close()


def _append_new(settings: Settings, table: TableSpec, spool: _Spool, batch: MicroBatch) -> None:
    path = settings.storage.table(table.name)
    with table_errors(path):
        stored = open_delta(settings, table)
        newest = stored.transaction_version(batch.query_id)
        if newest is not None and newest >= batch.number:
            return  # the batch is repeated after a crash
        known = spool.stored(stored, dated=table.dated)
        part: list[pa.RecordBatch] = []
        part_bytes = 0
        for rows in spool.read():
            new = _new(rows, known)
            if part and part_bytes + new.nbytes > _COMMITTED_BYTES:
                _commit(stored, part, MicroBatch(batch.query_id, batch.number - 1))  # the last that is complete
                part, part_bytes = [], 0
            part.append(new)
            part_bytes += new.nbytes
        _commit(stored, part, batch)


def _commit(table: DeltaTable, rows: Sequence[pa.RecordBatch], written: MicroBatch) -> None:
    """Append rows; from then on the table holds micro-batches up to `written`.

    That mark also has a commit refused if an old process has written the same rows meanwhile.
    """
    write_deltalake(
        table,
        pa.Table.from_batches(rows),
        mode="append",
        schema_mode="merge",  # an operator may have added columns
        commit_properties=CommitProperties(app_transactions=[Transaction(written.query_id, written.number)]),
    )


def _new(rows: pa.RecordBatch, known: set[_Key]) -> pa.RecordBatch:
    """Return the rows whose source is not known, each once; theirs become known."""
    new = []
    for key in _keys(rows["source"]):
        new.append(key not in known)
        known.add(key)
    return rows.filter(pa.array(new, pa.bool_()))


def _keys(sources: pa.StructArray) -> Iterator[_Key]:
    return zip(*(sources.field(name).to_pylist() for name in SOURCE.names), strict=True)
