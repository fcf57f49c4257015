"""What a streaming query tells of its last batch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from pyspark.sql.streaming.query import StreamingQuery

from quota.kafka.log_ends import Partition

_WHOLE = "triggerExecution"
"""Spark's name for all of a batch."""


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """A batch that was done: when it ended (s since the epoch), how long each phase took (s), how far it has read."""

    batch: int
    ended_at: float
    phases: Mapping[str, float]
    positions: Mapping[Partition, int]
    state_rows: int | None
    """None for a query without state, as `state_bytes` is."""
    state_bytes: int | None

    @classmethod
    def of(cls, query: StreamingQuery) -> Self | None:
        """The last batch of a query; None before the first one of its run."""
        progress = query.lastProgress
        return None if progress is None else cls.read(json.loads(progress.json))

    @classmethod
    def read(cls, progress: Mapping[str, Any]) -> Self:
        """From Spark's JSON."""
        phases = {phase: taken / 1000 for phase, taken in progress["durationMs"].items()}
        states = progress["stateOperators"]
        return cls(
            batch=progress["batchId"],
            ended_at=datetime.fromisoformat(progress["timestamp"]).timestamp() + phases.get(_WHOLE, 0.0),
            phases=phases,
            positions={
                (topic, int(partition)): offset
                for source in progress["sources"]
                for topic, partitions in (source["endOffset"] or {}).items()
                if isinstance(partitions, Mapping)  # a table's offset has none
                for partition, offset in partitions.items()
            },
            state_rows=sum(each["numRowsTotal"] for each in states) if states else None,
            state_bytes=sum(each["memoryUsedBytes"] for each in states) if states else None,
        )

    def lag(self, ends: Mapping[Partition, int]) -> int:
        """Records that were not read by the end of this batch."""
        return sum(max(0, end - self.positions.get(partition, end)) for partition, end in ends.items())


@dataclass(frozen=True, slots=True)
class QueryView:
    """A query as it was last looked at."""

    started_at: float
    """Seconds since the epoch."""
    trigger_seconds: float
    last: QueryProgress | None = None
    ends: Mapping[Partition, int] = field(default_factory=dict)
    """Of the partitions that it reads; empty where that is not known yet."""
    under_way: bool = False
    """Whether a batch with records is worked on."""
