"""The columns of the Delta tables for `docs/reference/tables.md`; `python -m schemas.table_docs` writes them there."""

import re
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.types import ArrayType, DataType, StructType

from schemas import dead_letters, decisions, quota_changes

DOCUMENTED = {
    "decisions": decisions.TABLE,
    "dead_letters": dead_letters.TABLE,
    "quota_changes": quota_changes.TABLE,
}

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/tables.md"

_UNIT = re.compile(r"(?P<meaning>.*) \[(?P<unit>[^\]]+)\]")
_SECTION = re.compile(r"(<!-- columns: (\w+) -->\n).*?(<!-- end of columns -->)", re.DOTALL)


def with_columns(page: str) -> str:
    """Return the page with the current columns of each table, in the sections that it has for them."""
    lines = {name: [*_HEAD, *_rows(schema)] for name, schema in DOCUMENTED.items()}
    return _SECTION.sub(lambda section: section[1] + "\n".join(lines[section[2]]) + "\n" + section[3], page)


_HEAD = ("| column | type | unit | meaning |", "|---|---|---|---|")


def _rows(schema: StructType, within: str = "") -> Iterator[str]:
    """Yield a row for each column, followed by the fields in it."""
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
    """Update the page."""
    PAGE.write_text(with_columns(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
