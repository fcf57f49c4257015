"""Appends the records of the topics to the audit's tables, each record once. This code runs in a Python worker.

A commit contains a record only if the version of the table that it is based on does not, and it is rejected if another
audit has changed the table since. So it does not matter whether a micro-batch is complete, runs again, or is processed
by two workers at the same time.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql.pandas.types import to_arrow_type

from jobs.audit.rows import Rows, dead_letter_rows, decision_rows, quota_change_rows
from jobs.audit.tables import DEAD_LETTERS, DECISIONS, QUOTA_CHANGES, TABLES, TableSpec, TableStore
from jobs.spark.worker import prepare_worker
from quota.kafka.timing import Backoff
from quota.settings import Settings
from schemas.kafka import SOURCE

_COMMITTED_BYTES = 32 * 1024 * 1024
"""The size of the rows that one commit appends [bytes]; deltalake needs eight times as much memory."""

_ANY_AUDIT = "mutation-quota-audit"
"""A transaction id that all audits share. Delta rejects the later of two concurrent commits with the same id."""

_ATTEMPTS = 5
"""The number of attempts at a commit that may conflict with others, as those of `maintain` or an operator's DELETE."""

_MAX_RANGES = 100
"""The maximum number of ranges in a predicate: the time to read with it grows with their square."""

_SOURCE = to_arrow_type(SOURCE)

_Key = tuple[str, int, int]


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


def append_records(config: AuditConfig, records: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Append records (`schemas.kafka.RECORD`) to their tables, without those that a table already contains.

    Yields nothing.
    """
    prepare_worker(__name__)
    pending: dict[TableSpec, list[pa.Table]] = {table: [] for table in TABLES}
    for batch in records:
        for topic in pc.unique(batch["topic"]).to_pylist():
            own, rows = _rows_of(config, topic, batch.filter(pc.equal(batch["topic"], topic)))
            for table, part in ((own, rows.own), (DEAD_LETTERS, rows.dead_letters)):
                if sum(piece.nbytes for piece in (*pending[table], part)) > _COMMITTED_BYTES:
                    _append_new(config.store, table, pending[table])
                    pending[table] = []
                pending[table].append(part)
    for table, parts in pending.items():
        _append_new(config.store, table, parts)
    yield from ()


def _rows_of(config: AuditConfig, topic: str, records: pa.RecordBatch) -> tuple[TableSpec, Rows]:
    if topic == config.decisions_topic:
        return DECISIONS, decision_rows(records)
    if topic == config.dead_letters_topic:
        return DEAD_LETTERS, dead_letter_rows(records)
    return QUOTA_CHANGES, quota_change_rows(records)


def _append_new(store: TableStore, table: TableSpec, parts: Sequence[pa.Table]) -> None:
    """Append the rows that the table does not contain; retry if another writer has changed it meanwhile."""
    if not any(part.num_rows for part in parts):
        return
    rows = pa.concat_tables(parts)
    with store.errors(table):
        pauses = Backoff()
        for _ in range(_ATTEMPTS - 1):
            with suppress(CommitFailedError):
                _try_append(store, table, rows)
                return
            time.sleep(pauses.next())
        _try_append(store, table, rows)


def _try_append(store: TableStore, table: TableSpec, rows: pa.Table) -> None:
    stored = store.open(table)
    new = _new(rows, _stored_keys(stored, rows, dated=table.dated))
    if not new.num_rows:
        return
    write_deltalake(
        stored,
        new,
        mode="append",
        schema_mode="merge",  # an operator may have added columns
        commit_properties=CommitProperties(app_transactions=[Transaction(_ANY_AUDIT, stored.version() + 1)]),
        # That lists the whole log, at most 19,000 files, with each commit. Upkeep's own commits do it.
        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
    )


def _stored_keys(stored: DeltaTable, rows: pa.Table, *, dated: bool) -> set[_Key]:
    """Return the keys of those rows that the table already contains.

    Only the offsets from the first to the last of the rows are read, of each partition unless there are many, and, if
    copies of a record have the same date (`dated`), only with their dates.
    """
    offsets = pc.unique(pc.struct_field(rows["source"], "offset"))
    predicate = _among_offsets(rows)
    if dated:
        dates = pc.min_max(rows["date"])
        predicate += f" AND date BETWEEN '{dates['min']}' AND '{dates['max']}'"
    keys: set[_Key] = set()
    for batch in pa.RecordBatchReader.from_stream(stored.scan(columns=["source"], predicate=predicate)):
        sources = batch["source"].cast(_SOURCE)  # DataFusion's views of strings cannot be filtered
        keys.update(_keys(sources.filter(pc.is_in(sources.field("offset"), offsets))))
    return keys


def _among_offsets(rows: pa.Table) -> str:
    """Return a predicate of the sources between the first and the last of the rows."""
    sources = pa.table({name: pc.struct_field(rows["source"], name) for name in SOURCE.names})
    bounds = sources.group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")])
    if bounds.num_rows > _MAX_RANGES:
        return _between(pc.min(bounds["offset_min"]), pc.max(bounds["offset_max"]))
    ranges = []
    for span in bounds.to_pylist():
        topic = span["topic"].replace("'", "''")
        place = f"source['topic'] = '{topic}' AND source['partition'] = {span['partition']}"
        ranges.append(f"({place} AND {_between(span['offset_min'], span['offset_max'])})")
    return f"({' OR '.join(ranges)})"


def _between(first: object, last: object) -> str:
    return f"source['offset'] BETWEEN {first} AND {last}"


def _new(rows: pa.Table, known: set[_Key]) -> pa.Table:
    """Return the rows whose source is not in `known`, each once, and add their sources to it."""
    new = []
    for key in _keys(rows["source"].combine_chunks()):
        new.append(key not in known)
        known.add(key)
    return rows.filter(pa.array(new, pa.bool_()))


def _keys(sources: pa.StructArray) -> Iterator[_Key]:
    return zip(*(sources.field(name).to_pylist() for name in SOURCE.names), strict=True)
