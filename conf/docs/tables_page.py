"""The columns of the Delta tables for `docs/reference/tables.md`."""

import re
from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, StructType

from conf.docs.markdown import code, sentence, table
from schemas import dead_letters, decisions, quota_changes

_TABLES = {
    "decisions": decisions.TABLE,
    "dead_letters": dead_letters.TABLE,
    "quota_changes": quota_changes.TABLE,
}
_UNIT = re.compile(r"(?P<meaning>.*) \[(?P<unit>[^\]]+)\]")


def column_sections() -> dict[str, str]:
    """Return the table of the columns of each Delta table, by its name."""
    head = ("column", "type", "unit", "meaning")
    return {name: "\n".join(table(head, list(_rows(schema)))) for name, schema in _TABLES.items()}


def _rows(schema: StructType, within: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each column, followed by the fields in it."""
    for field in schema:
        name, comment = f"{within}{field.name}", field.metadata["comment"]
        match = _UNIT.fullmatch(comment)
        meaning, unit = (match["meaning"], match["unit"]) if match else (comment, "")
        yield code(name), code(_type(field.dataType)), unit, sentence(meaning)
        inner, several = field.dataType, ""
        if isinstance(inner, ArrayType):
            inner, several = inner.elementType, "[]"
        if isinstance(inner, StructType):
            yield from _rows(inner, f"{name}{several}.")


def _type(kind: DataType) -> str:
    if isinstance(kind, StructType):
        return "struct"
    if isinstance(kind, ArrayType):
        return f"array of {_type(kind.elementType)}"
    return kind.simpleString()
