"""A record of a topic, and where it stands."""

from typing import Any

import msgspec

from quota.errors import BadRecord


class Source(msgspec.Struct, frozen=True):
    """Where a record stands in Kafka."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"


class Record(msgspec.Struct, frozen=True):
    """A record as it was read: its bytes, and the timestamp of its topic (epoch ms)."""

    source: Source
    timestamp: int
    value: bytes | None
    key: bytes | None = None
    stamped: bool = True
    """Whether the broker has stamped it; a time that its producer wrote is as good as none."""

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")


def check_stamped(*, by_broker: bool) -> None:
    """Check who has stamped a record.

    Raises:
        BadRecord: its producer.
    """
    if not by_broker:
        raise BadRecord(
            "timestamp: its producer's own, with which it could write itself tokens; "
            "set message.timestamp.type=LogAppendTime on the topic"
        )


Row = dict[str, Any]


def record_of(row: Row) -> Record:
    """The record in a row of `schemas.kafka.RECORD`."""
    source = Source(row["topic"], row["partition"], row["offset"])
    stamped = row["timestamp"] is not None
    return Record(source, row["timestamp"] if stamped else 0, row["value"], row["key"], stamped)
