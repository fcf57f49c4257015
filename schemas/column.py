"""A column that says what it means: in Delta's own DESCRIBE, in `docs/tables.md`, and in the records' JSON Schemas."""

from pyspark.sql.types import DataType, StructField


def column(name: str, kind: DataType, meaning: str) -> StructField:
    """A column with its comment, which ends with the unit in brackets where it has one."""
    return StructField(name, kind, metadata={"comment": meaning})
