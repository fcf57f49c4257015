"""Decodes JSON records into Arrow columns of a Spark schema; a record that does not match the schema is null."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from quota.errors import BadRecord
from quota.records import codec

_TYPES: dict[type[DataType], Any] = {
    BooleanType: bool,
    DoubleType: float,
    IntegerType: int,
    LongType: int,
    StringType: str,
}


_CONVERSION_ERRORS = (pa.ArrowException, OverflowError, UnicodeError)
"""The errors of a value that has its column's type but cannot be converted, such as a number that is too large."""


class RecordDecoder:
    """Decodes the JSON records of a topic.

    Every field may be absent or null, because older programs did not write all of them; unknown fields are ignored.
    """

    def __init__(self, schema: StructType, objects: Sequence[str] = ()) -> None:
        """Create a decoder of records with these fields; the strings in `objects` are JSON objects, made compact."""
        self._type = pa.struct(list(to_arrow_schema(schema, timezone="UTC")))
        self._objects = objects
        self._decoder = msgspec.json.Decoder(_fields_type(schema, dict.fromkeys(objects, dict[str, Any])))

    def decode(self, values: Sequence[bytes | None]) -> pa.StructArray:
        """Return the records as structs; null for a value that does not match the schema."""
        rows = [self._fields(value) for value in values]
        try:
            return pa.array(rows, self._type)
        except _CONVERSION_ERRORS:
            return pa.array([row if self._fits(row) else None for row in rows], self._type)

    def _fields(self, value: bytes | None) -> dict[str, Any] | None:
        try:
            fields: dict[str, Any] = codec.decode(value, self._decoder)
        except BadRecord:
            return None
        for name in self._objects:
            if fields.get(name) is not None:
                fields[name] = codec.encode(fields[name]).decode()
        return fields

    def _fits(self, row: dict[str, Any] | None) -> bool:
        try:
            pa.array([row], self._type)
        except _CONVERSION_ERRORS:
            return False
        return True


def _fields_type(schema: StructType, others: Mapping[str, Any]) -> Any:  # noqa: ANN401 a type
    """Return the type of a JSON object with the fields of a schema; `others` has the types of some of them."""
    types = {field.name: (others.get(field.name) or _field_type(field.dataType)) | None for field in schema}
    make: Any = TypedDict  # mypy accepts only a TypedDict with literal fields
    return make("Fields", types, total=False)


def _field_type(kind: DataType) -> Any:  # noqa: ANN401 a type
    match kind:
        case StructType():
            return _fields_type(kind, {})
        case ArrayType():
            element: Any = _field_type(kind.elementType)
            return list[element | None]
        case MapType():
            return dict[str, str | None]
        case _:
            return _TYPES[type(kind)]
