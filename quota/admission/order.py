"""The order of the requests of one bucket (docs/decisions/quotas/0002-a-partition-keeps-its-order.md)."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Position(NamedTuple):
    """The position of a record in its bucket: its timestamp (epoch ms), and where it is in Kafka."""

    timestamp: int
    topic: str
    partition: int
    offset: int


def in_order(items: Iterable[tuple[Position, T]]) -> list[T]:
    """Return the items of one bucket's records, sorted by (timestamp, topic, partition, offset).

    Within a partition the offset takes precedence, even if a broker's clock stepped back, so the requests of one
    partition are decided in the same order however the stream is cut into batches.
    """
    newest: dict[tuple[str, int], int] = {}
    ordered = []
    for position, item in sorted(items, key=lambda pair: pair[0].offset):
        timestamp, topic, partition, offset = position
        latest = newest[topic, partition] = max(timestamp, newest.get((topic, partition), timestamp))
        ordered.append(((latest, topic, partition, offset), item))
    ordered.sort(key=lambda pair: pair[0])
    return [item for _, item in ordered]
