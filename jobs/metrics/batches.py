"""The progress of a streaming query, as reported by Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from quota.kafka.reading import Partition

_WHOLE_BATCH = "triggerExecution"
"""Spark's name for the total duration of a batch."""


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """A completed batch: its end [s since the epoch], the duration of each phase [s], and the end offsets read."""

    batch: int
    ended_at: float
    phases: Mapping[str, float]
    positions: Mapping[Partition, int]
    state_rows: int | None
    """The rows of the state; None for a query without state, as is `state_bytes`."""
    state_bytes: int | None

    @classmethod
    def read(cls, progress: Mapping[str, Any]) -> Self:
        """Parse Spark's JSON."""
        phases = {phase: milliseconds / 1000 for phase, milliseconds in progress["durationMs"].items()}
        states = progress["stateOperators"]
        return cls(
            batch=progress["batchId"],
            ended_at=datetime.fromisoformat(progress["timestamp"]).timestamp() + phases.get(_WHOLE_BATCH, 0.0),
            phases=phases,
            positions={
                (topic, int(partition)): offset
                for source in progress["sources"]
                for topic, partitions in (source["endOffset"] or {}).items()
                if isinstance(partitions, Mapping)  # the offset of a table has no partitions
                for partition, offset in partitions.items()
            },
            state_rows=sum(state["numRowsTotal"] for state in states) if states else None,
            state_bytes=sum(state["memoryUsedBytes"] for state in states) if states else None,
        )

    def lag(self, ends: Mapping[Partition, int]) -> int:
        """Return the number of records that were not read by the end of this batch."""
        return sum(max(0, end - self.positions.get(partition, end)) for partition, end in ends.items())


@dataclass(frozen=True, slots=True)
class QueryView:
    """A query as of the last poll."""

    started_at: float
    """The start of the job [s since the epoch]."""
    trigger_seconds: float
    last: FinishedBatch | None = None
    ends: Mapping[Partition, int] = field(default_factory=dict)
    """The log end offsets of the partitions that it reads; empty until they are known."""
    under_way: bool = False
    """Whether a batch with records is being processed."""
