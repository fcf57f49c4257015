"""A record of a Kafka topic, its position, and the types of its fields: times, rates, durations, sizes of numbers."""

import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Self

import msgspec

from quota.errors import BadInput, BadRecord
from quota.text import TOPIC_NAME

MAX_EPOCH_MS = 253_402_300_799_999
"""The last millisecond of the year 9999; later times are typing errors."""

BEGINNING = -(2**63)
"""A time before all timestamps: a change at this time has always been in effect."""

Name = Annotated[str, msgspec.Meta(min_length=1)]
EpochMs = Annotated[int, msgspec.Meta(ge=0, le=MAX_EPOCH_MS)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
DebtMs = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1, extra={"bits": 64})]
TopicLimit = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A number that is not negative; a table stores it in 32 bits, and numbers without such a bound in 64."""
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_ID = re.compile(rf"(?P<topic>{TOPIC_NAME})-(?P<partition>[0-9]{{1,9}})-(?P<offset>[0-9]{{1,18}})")


class Source(msgspec.Struct, frozen=True, gc=False):
    """The position of a record in Kafka."""

    topic: str
    """name of the topic"""
    partition: Int32
    """number of the partition"""
    offset: Int64
    """offset in the partition"""

    @classmethod
    def parse(cls, text: str, what: str) -> Self:
        """Return the position in the id of something, such as `mutation-requests-0-17`; `what` it is says the error."""
        match = _ID.fullmatch(text)
        if match is None:
            expected = "expected topic-partition-offset, such as mutation-requests-0-17"
            raise BadInput(f"{text!r} is not the id of a {what}: {expected}")
        return cls(match["topic"], int(match["partition"]), int(match["offset"]))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"


class Record(msgspec.Struct, frozen=True, gc=False):  # or the collector would traverse a large batch again and again
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
