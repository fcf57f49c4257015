"""The order of a bucket's requests: by time, and within a partition by offset."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from quota.records.decision import Decision
from quota.records.record import Record

T = TypeVar("T")


class Position(NamedTuple):
    """The position of a record in its bucket: its timestamp (epoch ms), and where it is in Kafka."""

    timestamp: int
    topic: str
    partition: int
    offset: int


def position_of(decided: Record | Decision) -> Position:
    """Return the position of a record, or of a decision's record, in its bucket."""
    source = decided.source
    return Position(decided.timestamp, source.topic, source.partition, source.offset)


class RunningOrder:
    """The order of records in their buckets, those of each partition as they come, by their offsets.

    Within a partition the offset takes precedence, even if a broker's clock stepped back: a record stands at the newest
    timestamp of its partition so far.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], int] = {}

    def place(self, position: Position) -> tuple[int, str, int, int]:
        """Return the place of the next record; a later one in the order of its bucket has a greater place."""
        timestamp, topic, partition, offset = position
        newest = self._newest[topic, partition] = max(timestamp, self._newest.get((topic, partition), timestamp))
        return newest, topic, partition, offset


def in_order(items: Iterable[T], position: Callable[[T], Position]) -> list[T]:
    """Return the items of one bucket's records, sorted by (timestamp, topic, partition, offset) of their positions.

    Within a partition the offset takes precedence (`RunningOrder`), so the requests of one partition are decided in the
    same order however the stream is cut into batches.
    """
    order = RunningOrder()
    by_offset = sorted(items, key=lambda item: position(item).offset)
    return sorted(by_offset, key=lambda item: order.place(position(item)))  # the key is taken in this order
