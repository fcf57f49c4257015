"""A log of requests and quota changes."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication
from quota.records.quota_log import Window

TOPIC = "mutation-requests"

ABSENT = "absent"
"""In an entity, the user or client-id that the quota does not name; None is the default. No test has such a name."""

Entity = tuple[str | None, str | None]
"""User and client-id of a quota."""


@dataclass(frozen=True, slots=True)
class Change:
    """A quota of an entity from `moment` (epoch ms) on; a rate of None removes it."""

    entity: Entity
    rate: float | None
    burst: float | None
    moment: int


@dataclass(frozen=True, slots=True)
class Reset:
    """A reset of the buckets with these tags: at `moment` (epoch ms) they are full."""

    tags: Mapping[str, str]
    moment: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the request topic: a request, or the bytes of an invalid record; `timestamp` is epoch ms."""

    partition: int
    timestamp: int
    request: Mapping[str, object] | None
    bad: bytes | None = None

    @property
    def value(self) -> bytes | None:
        """The value of the record."""
        return self.bad if self.request is None else json.dumps(self.request).encode()


Row = tuple[str, int, int, int, bytes, bytes | None]
"""A row of `schemas.kafka.RECORD`: topic, partition, offset, timestamp (epoch ms), key and value."""


@dataclass(frozen=True, slots=True)
class Log:
    """Records in the order in which they came, and changes in the order of their moments."""

    window: Window
    entries: Sequence[Entry]
    changes: Sequence[Change | Reset]
    deduplication: Deduplication = NO_DEDUPLICATION

    def placed(self) -> Iterator[tuple[int, Entry]]:
        """Yield each record with its offset."""
        ends: Counter[int] = Counter()
        for entry in self.entries:
            yield ends[entry.partition], entry
            ends[entry.partition] += 1

    def rows(self) -> list[Row]:
        """Return the records as Spark reads them; the key names partition and offset."""
        return [
            (TOPIC, entry.partition, offset, entry.timestamp, f"{entry.partition}-{offset}".encode(), entry.value)
            for offset, entry in self.placed()
        ]
