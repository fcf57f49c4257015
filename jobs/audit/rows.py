"""The rows of the audit's tables, from the records of the topics. All are Arrow tables.

Each function returns rows of the topic's own table and dead letters; a record becomes a row of exactly one of them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jobs.audit.quota_changes import record_to_row
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.errors import BadRecord
from quota.kafka.timing import now_ms
from quota.records import codec
from quota.records.dead_letter import read_dead_letter
from quota.records.decision import read_decision
from quota.records.quota_log import read_quota_log_record
from quota.records.record import MAX_EPOCH_MS, Record
from schemas import tables
from schemas.kafka import SOURCE

_CONVERSION_ERRORS = (pa.ArrowException, OverflowError, UnicodeError)
"""The errors of a value that has its column's type but cannot be converted, such as half of a surrogate pair."""


class RecordDecoder:
    """Decodes the JSON records of a topic as all other programs read them; fields without a column are ignored."""

    def __init__(
        self, schema: StructType, read: Callable[[bytes | None], msgspec.Struct], objects: Sequence[str] = ()
    ) -> None:
        """Create a decoder of records that `read` parses, with these fields; those in `objects` are stored as JSON."""
        self._type = pa.struct(list(to_arrow_schema(schema, timezone="UTC")))
        self._read = read
        self._objects = objects

    def decode(self, values: Sequence[bytes | None]) -> pa.StructArray:
        """Return the records as structs; null for a record that is malformed, or does not fit into the columns."""
        rows = [self._fields(value) for value in values]
        try:
            return pa.array(rows, self._type)
        except _CONVERSION_ERRORS:
            return pa.array([row if self._fits(row) else None for row in rows], self._type)

    def _fields(self, value: bytes | None) -> dict[str, Any] | None:
        try:
            fields: dict[str, Any] = msgspec.to_builtins(self._read(value))
        except BadRecord:
            return None
        for name in self._objects:
            if fields[name] is not None:
                fields[name] = codec.encode(fields[name]).decode()
        return fields

    def _fits(self, row: dict[str, Any] | None) -> bool:
        try:
            pa.array([row], self._type)
        except _CONVERSION_ERRORS:
            return False
        return True


_DECISIONS = to_arrow_schema(tables.DECISIONS, timezone="UTC")
_DEAD_LETTERS = to_arrow_schema(tables.DEAD_LETTERS, timezone="UTC")
_QUOTA_CHANGES = to_arrow_schema(tables.QUOTA_CHANGES, timezone="UTC")
_READ_QUOTA_CHANGES = to_arrow_schema(tables.QUOTA_LOG_RECORD, timezone="UTC")

_decisions = RecordDecoder(tables.DECISION_RECORD, read_decision, objects=["quota_entity"])
_dead_letters = RecordDecoder(tables.DEAD_LETTER_RECORD, read_dead_letter)

_UTC = pa.timestamp("us", "UTC")
_LAST_MS = MAX_EPOCH_MS + MAX_THROTTLE_MS


class Rows(NamedTuple):
    """The rows of a topic's records."""

    own: pa.Table
    """Rows of the topic's own table."""
    dead_letters: pa.Table
    """Rows of the dead letters table, for foreign and invalid records."""


def decision_rows(records: pa.RecordBatch) -> Rows:
    """Return the rows of records of the decisions topic (`schemas.kafka.RECORD`)."""
    decoded = _decisions.decode(records["value"].to_pylist())
    ours = _is_whole(decoded, "timestamp", "retry_at", "expires_at")
    columns = _columns(decoded) | {"decided_at": _moments(records["timestamp"], MAX_EPOCH_MS)}
    columns |= {name: _moments(columns[name]) for name in ("retry_at", "expires_at")}
    columns["timestamp"] = _stamps(columns["timestamp"])
    return Rows(_rows(columns, _DECISIONS, ours), _foreign_rows(records, pc.invert(ours)))


def dead_letter_rows(records: pa.RecordBatch) -> Rows:
    """Return the rows of records of the dead letters topic (`schemas.kafka.RECORD`), all for the dead letters table."""
    decoded = _dead_letters.decode(records["value"].to_pylist())
    ours = _is_whole(decoded, "timestamp")
    columns = _columns(decoded)
    # Where the timestamp of the invalid record is not trusted, the dead letter's own is used.
    columns["timestamp"] = _stamps(columns["timestamp"], records["timestamp"])
    return Rows(_rows(columns, _DEAD_LETTERS, ours), _foreign_rows(records, pc.invert(ours)))


def quota_change_rows(records: pa.RecordBatch) -> Rows:
    """Return the rows of records of the quota topic (`schemas.kafka.RECORD`)."""
    read = [_read_quota(Record.of_row(row)) for row in records.to_pylist()]
    columns = _columns(pa.RecordBatch.from_pylist(read, _READ_QUOTA_CHANGES).to_struct_array())
    columns["timestamp"] = _stamps(columns["timestamp"])
    columns["effective_at"] = _stamps(columns["effective_at"])
    valid = columns["error"].is_null()
    return Rows(_rows(columns, _QUOTA_CHANGES, valid), _rows(columns, _DEAD_LETTERS, pc.invert(valid)))


def _is_whole(decoded: pa.StructArray, *times: str) -> pa.BooleanArray:
    """Return which records are not malformed, and have valid times or none."""
    last = {"timestamp": MAX_EPOCH_MS}  # its date is a column; the others may be a throttle time later
    in_range = [_in_range(decoded.field(name).fill_null(0), last.get(name, _LAST_MS)) for name in times]
    return reduce(pc.and_, in_range, decoded.is_valid())  # a field of a null struct may have any value


def _foreign_rows(records: pa.RecordBatch, foreign: pa.BooleanArray) -> pa.Table:
    """Return the dead letters for foreign records, which this program does not write."""
    records = records.filter(foreign)
    text = [None if value is None else codec.text(value) for value in records["value"].to_pylist()]
    columns = {
        "source": pa.StructArray.from_arrays([records[name] for name in SOURCE.names], SOURCE.names),
        "timestamp": _stamps(records["timestamp"]),
        "error": pc.binary_join_element_wise("value: not a record of ", records["topic"], ""),
        "value": pa.array(text, pa.string()),
    }
    return _rows(columns, _DEAD_LETTERS)


def _columns(rows: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip([field.name for field in rows.type], rows.flatten(), strict=True))


def _stamps(*epoch_ms: pa.Array) -> pa.Array:
    """Return the first valid timestamp of each record (arguments in epoch ms), or the current time if none is valid."""
    moments = [_moments(moment, MAX_EPOCH_MS) for moment in epoch_ms]
    return pc.coalesce(*moments, pa.scalar(now_ms() * 1000, _UTC))


def _moments(epoch_ms: pa.Array, last: int = _LAST_MS) -> pa.Array:
    """Return times in epoch ms as timestamps; null before 1970 and after the last."""
    return pc.if_else(_in_range(epoch_ms, last), epoch_ms, None).cast(pa.timestamp("ms", "UTC")).cast(_UTC)


def _in_range(epoch_ms: pa.Array, last: int) -> pa.BooleanArray:
    return pc.and_(pc.greater_equal(epoch_ms, 0), pc.less_equal(epoch_ms, last))


def _rows(columns: Mapping[str, pa.Array], schema: pa.Schema, which: pa.BooleanArray | None = None) -> pa.Table:
    """Return columns as rows of a table, with the date of `timestamp`, the partition column."""
    dated = {**columns, "date": columns["timestamp"].cast(pa.timestamp("us")).cast(pa.date32())}
    rows = pa.table([dated[name].cast(schema.field(name).type) for name in schema.names], schema=schema)
    return rows if which is None else rows.filter(which)


def _read_quota(record: Record) -> dict[str, Any]:
    source = {"topic": record.source.topic, "partition": record.source.partition, "offset": record.source.offset}
    row: dict[str, Any] = {"source": source, "timestamp": record.timestamp if record.stamped else None}
    try:
        change = read_quota_log_record(record.value, record.key)
        record.check_stamped()
    except BadRecord as error:
        return row | {"error": str(error), "value": None if record.value is None else codec.text(record.value)}
    return row | record_to_row(change, record.timestamp)
