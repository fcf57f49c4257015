"""A record of a Kafka topic, and its position."""

import re
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from quota.errors import BadRecord
from quota.records.fields import Int32, Int64

_ID = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,9})-(?P<offset>[0-9]{1,18})")


class Source(msgspec.Struct, frozen=True):
    """The position of a record in Kafka."""

    topic: str
    """name of the topic"""
    partition: Int32
    """number of the partition"""
    offset: Int64
    """offset in the partition"""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the position in a text such as `mutation-requests-0-17`; None if the text is not a position."""
        match = _ID.fullmatch(text)
        return None if match is None else cls(match["topic"], int(match["partition"]), int(match["offset"]))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"


class Record(msgspec.Struct, frozen=True):
    """A record as it was read: its bytes, and its timestamp (epoch ms)."""

    source: Source
    timestamp: int
    value: bytes | None
    key: bytes | None = None
    stamped: bool = True
    """Whether the broker set the timestamp (LogAppendTime); a producer's own timestamp is not trusted."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the record in a row of `schemas.kafka.RECORD`, whose timestamp is null if it is not trusted."""
        timestamp = row["timestamp"]
        source = Source(row["topic"], row["partition"], row["offset"])
        return cls(source, timestamp or 0, row["value"], row["key"], timestamp is not None)

    @property
    def size(self) -> int:
        """The bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")

    def check_stamped(self) -> None:
        """Check that the broker set the timestamp."""
        if not self.stamped:
            raise BadRecord(
                "timestamp: set by the producer, which could give itself tokens; set "
                "message.timestamp.type=LogAppendTime on the topic"
            )
