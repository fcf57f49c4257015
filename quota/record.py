"""A record of a topic, and where it stands."""

import msgspec


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

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")
