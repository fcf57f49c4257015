"""A decision: the answer to one request, and its charges."""

import enum
from collections.abc import Sequence
from typing import Protocol

import msgspec

from quota.records import codec
from quota.records.entity import QuotaEntity, Tags
from quota.records.quota import Quota
from quota.records.record import Source
from quota.records.request import Mode, Observed, Operation, TopicDetails


class ErrorCode(enum.IntEnum):
    """The error codes of Kafka that a topic of a decision can have."""

    NONE = 0
    THROTTLING_QUOTA_EXCEEDED = 89


class Outcome(enum.Enum):
    """Whether all, some or none of a request's topics were admitted."""

    ADMITTED = "ADMITTED"
    PARTIAL = "PARTIAL"
    REJECTED = "REJECTED"


class TopicDecision(TopicDetails, frozen=True):
    """The answer for one topic, with the details of its request."""

    name: str
    partitions: int
    error_code: int
    error: str
    error_message: str | None


class Shadow(msgspec.Struct, frozen=True):
    """The answer that a quota in shadow would have given; `error_codes` in the order of the request's topics."""

    outcome: Outcome
    error_codes: list[int]
    controller_throttle_ms: int
    throttle_time_ms: int


class Repeat(msgspec.Struct, frozen=True):
    """The decision that admitted the same request before: its first `topics` topics are not charged again."""

    decision_id: str
    topics: int


class _Topic(Protocol):
    @property
    def partitions(self) -> int: ...
    @property
    def error_code(self) -> int: ...


class _Decided(Protocol):
    """The fields of a decision from which its charges follow."""

    @property
    def topics(self) -> Sequence[_Topic]: ...
    @property
    def validate_only(self) -> bool: ...
    @property
    def repeats(self) -> Repeat | None: ...
    @property
    def shadow(self) -> Shadow | None: ...
    @property
    def controller_throttle_ms(self) -> int: ...
    @property
    def throttle_time_ms(self) -> int: ...
    @property
    def quota(self) -> float | None: ...
    @property
    def paid_topics(self) -> int: ...
    @property
    def free_topics(self) -> int: ...
    @property
    def error_codes(self) -> list[int]: ...


class Charges:
    """The costs of a decision, and of its row in the audit's table; implemented only here in Python.

    `jobs.audit.effective` states the same in SQL.
    """

    __slots__ = ()

    @property
    def verdict(self: _Decided) -> _Decided | Shadow:
        """The answer as the quota decided: that of the quota in shadow, or else the decision itself."""
        return self.shadow or self

    @property
    def paid_topics(self: _Decided) -> int:
        """The number of leading topics that an earlier decision on the same request has charged."""
        return self.repeats.topics if self.repeats else 0

    @property
    def free_topics(self: _Decided) -> int:
        """The number of leading topics that cost nothing: all topics of a validate-only request, or the paid ones."""
        return len(self.topics) if self.validate_only else self.paid_topics

    @property
    def costs(self: _Decided) -> list[int]:
        """The mutations that each topic costs if it is admitted, without the free topics."""
        return [topic.partitions for topic in self.topics[self.free_topics :]]

    @property
    def error_codes(self: _Decided) -> list[int]:
        """The error code of each topic as the quota decided, also where it is in shadow and all are admitted."""
        return self.shadow.error_codes if self.shadow else [topic.error_code for topic in self.topics]

    @property
    def charged(self: _Decided) -> list[int]:
        """The mutations of each topic that the bucket was charged; empty without a bucket."""
        if self.quota is None:
            return []
        decided = zip(self.topics, self.error_codes, strict=True)
        return [topic.partitions for topic, code in list(decided)[self.free_topics :] if not code]


class Decision(Charges, msgspec.Struct, frozen=True):
    """The answer to one request; times in ms, `timestamp` and `retry_at` since the epoch, tokens in mutations."""

    decision_id: str
    request_id: str
    user: str
    client_id: str
    operation: Operation
    validate_only: bool
    mode: Mode
    user_tag: str
    client_tag: str
    more_tags: dict[str, str]
    callback: str | None
    quota: float | None
    burst: float | None
    max_debt_ms: int | None
    quota_entity: QuotaEntity | None
    exempt: bool
    outcome: Outcome
    topics: list[TopicDecision]
    controller_throttle_ms: int
    request_throttle_ms: int
    throttle_time_ms: int
    retry_at: int
    shadow: Shadow | None
    tokens_before: float | None
    tokens: float | None
    timestamp: int
    source: Source
    apply: bool = False
    expires_at: int | None = None
    repeats: Repeat | None = None
    observed: Observed | None = None

    @property
    def tags(self) -> Tags:
        """The tags of the bucket."""
        return Tags(self.user_tag, self.client_tag, tuple(sorted(self.more_tags.items())))

    @property
    def applied_quota(self) -> Quota | None:
        """The quota that was applied, with its effective burst; None without a quota."""
        return None if self.quota is None else Quota(self.quota, self.burst, self.max_debt_ms)


_decoder = msgspec.json.Decoder(Decision)


def read_decision(value: bytes | None) -> Decision:
    """Parse a record of the decisions topic.

    Raises:
        BadRecord: the record is not a decision; the message names the field and the value.
    """
    return codec.decode(value, _decoder)
