"""The rows of a micro-batch for one table, until they are appended."""

import os
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.audit.tables.specs import TableSpec

_MEMORY_BYTES = 64 * 1024 * 1024
"""The size of the rows that are held in memory [bytes]; above it a file holds them, because records may be large."""


class RowSpool:
    """Rows of a table, in memory or, above a certain size, in a temporary file."""

    def __init__(self, table: TableSpec) -> None:
        """Start without rows."""
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
        self._file = SpooledTemporaryFile(_MEMORY_BYTES, dir=folder or None)  # noqa: SIM115 closed by `close`
        self._writer = pa.ipc.new_stream(self._file, to_arrow_schema(table.schema, timezone="UTC"))
        self._sources: list[pa.ChunkedArray] = []
        self._dates: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return not self._sources

    @property
    def offsets(self) -> pa.Array:
        """The distinct offsets of the rows' sources."""
        return pc.unique(pa.chunked_array([pc.struct_field(each, "offset") for each in self._sources]))

    @property
    def dates(self) -> set[str]:
        """The distinct dates of the rows (YYYY-MM-DD)."""
        return self._dates

    def add(self, rows: pa.Table) -> None:
        """Add rows that have the table's schema."""
        if rows.num_rows:
            self._writer.write_table(rows)
            self._sources.append(rows["source"])
            self._dates.update(map(str, pc.unique(rows["date"]).to_pylist()))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Return the rows, from the first; no rows can be added afterwards."""
        self._writer.close()  # idempotent
        self._file.seek(0)
        return iter(pa.ipc.open_stream(self._file))

    def close(self) -> None:
        """Discard the rows, and delete their file."""
        self._file.close()
