"""A log of requests and quota changes, and the ways in which a stream of it may be cut and run."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from quota.algorithms.bucket import Window
from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication

TOPIC = "mutation-requests"

ABSENT = "absent"
"""A part of an entity that takes no part; None is its default. No name of a test is spelled so."""

Entity = tuple[str | None, str | None]
"""User and client-id that a quota is for."""


@dataclass(frozen=True, slots=True)
class Change:
    """A quota of an entity from `moment` (epoch ms) on; a rate of None removes it."""

    entity: Entity
    rate: float | None
    burst: float | None
    moment: int


@dataclass(frozen=True, slots=True)
class Reset:
    """Buckets with these tags are as if never seen from `moment` on."""

    tags: Mapping[str, str]
    moment: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A record: a request, or bytes that are none."""

    partition: int
    timestamp: int
    request: Mapping[str, object] | None
    bad: bytes | None = None

    @property
    def value(self) -> bytes | None:
        """Of the record."""
        return self.bad if self.request is None else json.dumps(self.request).encode()


Row = tuple[str, int, int, int, bytes, bytes | None]
"""`schemas.kafka.RECORD`."""


@dataclass(frozen=True, slots=True)
class Log:
    """Records in the order in which they came, and changes in the order of their moments."""

    window: Window
    entries: Sequence[Entry]
    changes: Sequence[Change | Reset]
    repeats: Deduplication = NO_DEDUPLICATION

    def placed(self) -> Iterator[tuple[int, Entry]]:
        """Each record and its offset."""
        ends: Counter[int] = Counter()
        for entry in self.entries:
            yield ends[entry.partition], entry
            ends[entry.partition] += 1

    def rows(self) -> list[Row]:
        """The records as Spark reads them; the key tells where each stands."""
        return [
            (TOPIC, entry.partition, offset, entry.timestamp, f"{entry.partition}-{offset}".encode(), entry.value)
            for offset, entry in self.placed()
        ]


@dataclass(frozen=True, slots=True)
class Run:
    """How a log goes through Spark: where its partitions are cut into batches, and all that must not matter."""

    cuts: Sequence[float] = ()
    """Where, as shares of each partition in turn: batches are as many as the cuts of the first one, and one."""
    state_partitions: int = 2
    frame_rows: int = 1000
    """Rows in each frame that reaches Python."""
    arrival: int = 0
    """The seed of the order in which a batch's rows arrive, and in which task."""
    restart_after: int | None = None
    """The batch after which the query ends and starts again from its checkpoint."""
    crash: bool = False
    """Whether that batch was not known to be done, and is done again."""
    knows_all: bool = True
    """Whether quota changes are known before the requests they are for, or as late as may be."""

    def batches(self, log: Log) -> list[list[Row]]:
        """The log's rows, batch by batch; each partition goes on where it was cut."""
        by_partition: dict[int, list[Row]] = {}
        for row in log.rows():
            by_partition.setdefault(row[1], []).append(row)
        count = len(self.cuts) + 1
        found: list[list[Row]] = [[] for _ in range(count)]
        for number, rows in enumerate(by_partition.values()):
            # Each partition is cut elsewhere, as Kafka's are.
            shares = sorted((share + number * 0.37) % 1 for share in self.cuts)
            ends = [0, *(round(share * len(rows)) for share in shares), len(rows)]
            for batch, (start, end) in zip(found, pairwise(ends), strict=True):
                batch.extend(rows[start:end])
        return [batch for batch in found if batch]
