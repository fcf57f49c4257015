"""The columns of the Delta tables as they stand in `docs/tables.md`; `python -m schemas.table_docs` puts them there."""

import re
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.types import ArrayType, DataType, StructType

from jobs.audit.minutes import TENANT_MINUTES
from jobs.audit.tables import TABLES

DOCUMENTED = (*TABLES, TENANT_MINUTES)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tables.md"

_UNIT = re.compile(r"(?P<meaning>.*) \[(?P<unit>[^\]]+)\]")
_PLACE = re.compile(r"(<!-- columns: (\w+) -->\n).*?(<!-- end of columns -->)", re.DOTALL)


def with_columns(page: str) -> str:
    """The page with the columns of each table as they are now, where it has a place for them."""
    lines = {table.name: [*_HEAD, *_rows(table.schema)] for table in DOCUMENTED}
    return _PLACE.sub(lambda place: place[1] + "\n".join(lines[place[2]]) + "\n" + place[3], page)


_HEAD = ("| column | type | unit | meaning |", "|---|---|---|---|")


def _rows(schema: StructType, within: str = "") -> Iterator[str]:
    """A row for each column, and behind it those of the fields in it."""
    for field in schema:
        name, comment = f"{within}{field.name}", field.metadata["comment"]
        match = _UNIT.fullmatch(comment)
        meaning, unit = (match["meaning"], match["unit"]) if match else (comment, "")
        yield f"| `{name}` | `{_type(field.dataType)}` | {unit} | {meaning.replace('<', '&lt;')} |"
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


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(with_columns(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
