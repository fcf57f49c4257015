"""The engine of a what-if in this process: DuckDB sorts and counts, within a bound on its memory."""

# ruff: noqa: S608 no user names the tables

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import TimestampType

from jobs.audit.tables.specs import DECISIONS as TABLE
from jobs.progress import Tell
from jobs.whatif.engine import DECISIONS, NEWEST, ORDER, RECORDED, Fold, Stage
from quota.records.decision import Decision
from schemas.kafka import SOURCE

_ROWS = 5_000
"""The rows of a batch: many enough for Arrow, and few enough for words that change."""


class LocalEngine:
    """Tables in DuckDB, which writes what exceeds its memory to a temporary folder."""

    def __init__(self, db: duckdb.DuckDBPyConnection, decisions: pa.Table | ds.Dataset, tell: Tell) -> None:
        """Start from rows of `jobs.whatif.engine.RECORDED` in a table, or from a dataset of the audit's table."""
        self._db = db
        self._tell = tell
        self._store(DECISIONS, decisions, "*" if isinstance(decisions, pa.Table) else _decision_json())

    def run(self, stage: Stage, fold: Fold) -> None:
        """Run a stage at once."""
        self._store(stage.target, to_arrow_schema(stage.schema).empty_table())
        for batch in fold(self._batches(stage)):
            self._db.register("batch", pa.Table.from_batches([batch]))
            self._db.execute(f"INSERT INTO {stage.target} FROM batch")
            self._db.unregister("batch")
        if stage.bucket:
            self._db.execute(f"DROP TABLE {stage.source}")

    def query(self, text: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._db.execute(text).fetchall()

    def _store(self, name: str, rows: pa.Table | ds.Dataset, columns: str = "*") -> None:
        self._db.register("rows", rows)
        self._db.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM rows")
        self._db.unregister("rows")

    def _batches(self, stage: Stage) -> Iterator[pa.RecordBatch]:
        ((total,),) = self.query(f"SELECT count(*) FROM {stage.source}")
        text, done = _in_bucket_order(stage) if stage.bucket else f"FROM {stage.source}", 0
        self._tell(f"{stage.doing}: {total:,} rows")
        with self._db.cursor() as rows:  # of its own, because the fold's rows are stored meanwhile
            for batch in rows.sql(text).to_arrow_reader(_ROWS):
                yield batch
                done += batch.num_rows
                self._tell(f"{stage.doing}: {done:,} of {total:,} rows")


def _in_bucket_order(stage: Stage) -> str:
    bucket = ", ".join(stage.bucket)
    order, excluded = (", ".join(f'"{name}"' for name in names) for names in (ORDER, SOURCE.names))
    newest = NEWEST.format(bucket=bucket)
    return (
        f"SELECT * EXCLUDE (newest, {excluded}) FROM (SELECT *, {newest} AS newest FROM {stage.source} AS rows) "
        f"ORDER BY {bucket}, {order}"
    )


def _decision_json() -> str:
    """Return the JSON of decisions from rows of the table; rows of an older table lack some values."""
    values = {name: f'"{name}"' for name in Decision.__struct_fields__}
    times = [field.name for field in TABLE.schema if isinstance(field.dataType, TimestampType)]
    values |= {name: f"epoch_ms({values[name]})" for name in times if name in values}
    values |= {name: f"coalesce({values[name]}, false)" for name in ("exempt", "apply")}
    values["more_tags"] = "coalesce(more_tags, MAP {})"
    values["quota_entity"] = "quota_entity::JSON"
    fields = ", ".join(f"'{name}': {value}" for name, value in values.items())
    return f"encode(to_json({{{fields}}})::VARCHAR) AS {RECORDED.names[0]}"
