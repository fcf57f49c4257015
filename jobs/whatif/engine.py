"""The engines of a what-if: both run the same folds and queries, one in this process and one in Spark."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

Fold: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function of the rows of a table, which come in batches, to those of another; it holds no more than a batch."""

DECISIONS = "decisions"
"""The table from which a what-if starts."""

RECORDED = StructType([StructField("decision", BinaryType())])
"""Its rows: the JSON of a `quota.records.decision.Decision`."""

NEWEST = "max(rows.timestamp) OVER (PARTITION BY {bucket}, rows.topic, rows.partition ORDER BY rows.offset)"
"""The first key of a bucket's order: the newest timestamp of the topic partition so far.

Within a partition the offset decides, even if a clock stepped back (`quota.admission.decide.in_order`).
"""

ORDER = ("newest", "topic", "partition", "offset")
"""The keys of a bucket's order."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A fold over the rows of one table into another.

    With the columns of a `bucket`, the rows have a `timestamp` and `schemas.kafka.SOURCE`, of which the fold gets only
    the timestamp. They come one bucket after the other, each whole and in its order, and are not needed again.
    """

    doing: str
    """What the user is told meanwhile."""
    source: str
    target: str
    schema: StructType
    """The columns of the target."""
    bucket: tuple[str, ...] = ()


class Engine(Protocol):
    """Tables of rows, by their names."""

    def run(self, stage: Stage, fold: Fold) -> None:
        """Run a stage."""

    def query(self, text: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query in the SQL that both engines know."""


def record_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows, at least one, as an Arrow record batch."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)], schema=schema
    )
