"""Decodes JSON records into Arrow columns of a Spark schema; a record that is malformed is null."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from quota.errors import BadRecord
from quota.records import codec

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
