"""What is answered: a decision for a request, or a dead letter for a record that is none."""

import enum

import msgspec

from quota.records.entity import QuotaEntity
from quota.records.record import Source
from quota.records.request import Mode, Operation, TopicDetails


class ErrorCode(enum.IntEnum):
    """Kafka's error codes that a topic of a decision may carry."""

    NONE = 0
    THROTTLING_QUOTA_EXCEEDED = 89


class Outcome(enum.Enum):
    """Whether all, some or none of a request's topics were admitted."""

    ADMITTED = "ADMITTED"
    PARTIAL = "PARTIAL"
    REJECTED = "REJECTED"


class TopicDecision(TopicDetails, frozen=True):
    """The answer for one topic, and what its request said of it."""

    name: str
    partitions: int
    error_code: int
    error: str
    error_message: str | None


class Shadow(msgspec.Struct, frozen=True):
    """What a quota in shadow would have answered; `error_codes` in the order of the request's topics."""

    outcome: Outcome
    error_codes: list[int]
    controller_throttle_ms: int
    throttle_time_ms: int


class Repeat(msgspec.Struct, frozen=True):
    """Which decision admitted the same request before: the first `topics` of it are not charged again."""

    decision_id: str
    topics: int


def paid_topics(repeats: Repeat | None) -> int:
    """How many of the first topics of a request cost nothing, because it was admitted before."""
    return repeats.topics if repeats else 0


def free_topics(topics: int, repeats: Repeat | None, *, validate_only: bool) -> int:
    """How many of the first of so many topics cost nothing: all of a request that only asks, or what was paid for."""
    return topics if validate_only else paid_topics(repeats)


class Decision(msgspec.Struct, frozen=True):
    """The answer to one request. Times are in ms, `timestamp` and `retry_at` since the epoch, tokens in mutations."""

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


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is no request: why, and the record as it came (base64 where `error` says it is not UTF-8)."""

    error: str
    value: str | None
    timestamp: int | None
    source: Source
