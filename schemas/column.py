"""A column with its meaning, which Delta's DESCRIBE, `docs/reference/tables.md` and the JSON Schemas show."""

from pyspark.sql.types import DataType, StructField


def column(name: str, kind: DataType, meaning: str) -> StructField:
    """Return a column with its comment; a unit is at the end of it in brackets."""
    return StructField(name, kind, metadata={"comment": meaning})
