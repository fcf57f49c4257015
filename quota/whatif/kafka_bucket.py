"""A bucket as Kafka's controller implements it, and the names of its differences from ours.

The rules are those of Kafka's `TokenBucket`, `ControllerMutationQuotaManager` and KRaft's controller; their names are
in docs/explanation/differences-from-kafka.md.
"""

from dataclasses import dataclass, field
from enum import Enum

from quota.records.quota import Quota, Window
from quota.records.request import Mode, MutationRequest

_EXPIRES_MS = 3_600_000
"""The time since the last charge after which Kafka drops a bucket [ms]."""

_EQUAL = 1e-6
"""Tokens that differ by less are the same."""


class KafkaDifference(Enum):
    """A rule by which Kafka decides differently; the value is its row in docs/explanation/differences-from-kafka.md."""

    STATE = "state of the buckets"
    ORDER = "the topics of a request"
    CLOCK = "a clock that steps back"
    QUOTA_CHANGED = "a quota that is changed"
    EXPIRED = "a debt of more than an hour"
    QUOTA_REMOVED = "a quota that is removed and set again"
    VALIDATE_ONLY = "`validate_only`"
    NO_CLIENT_ID = "a client without a client-id"
    BURST = "burst"
    DEBT = "debt"
    EXEMPT = "exempt principals"


@dataclass(frozen=True, slots=True)
class KafkaAnswer:
    """The answer of a controller: whether it admits each topic, its throttle time [ms], and its tokens before."""

    admitted: list[bool]
    throttle_ms: int
    tokens: float


@dataclass(slots=True)
class KafkaBucket:
    """The state of one bucket; it is full when it is first used."""

    tokens: float | None = None
    updated_at: int = 0
    charged_at: int = 0
    rate: float = 0.0
    causes: set[KafkaDifference] = field(default_factory=set)
    """The rules that explain why its tokens now differ from our bucket's."""

    def answer(self, request: MutationRequest, quota: Quota, window: Window, now: int) -> KafkaAnswer:
        """Return how the controller answers at `now` [epoch ms], without a charge."""
        before = tokens = self._tokens_at(quota, window, now)
        strict = request.mode is Mode.STRICT
        admitted = []
        for topic in request.topics:
            admit = tokens >= 0 or not strict
            if admit:
                tokens -= topic.partitions
            admitted.append(admit)
        throttled = not all(admitted) if strict else tokens < 0
        return KafkaAnswer(admitted, max(round(-tokens / quota.rate * 1000), 0) if throttled else 0, before)

    def charge(self, request: MutationRequest, cost: int, quota: Quota, window: Window, now: int) -> None:
        """Charge what the controller has admitted of a request at `now` [epoch ms]."""
        self.causes |= self.causes_of(request, quota, window, now)
        self.tokens = self._tokens_at(quota, window, now) - cost
        self.updated_at, self.rate = now, quota.rate
        if cost:
            self.charged_at = now

    def causes_of(self, request: MutationRequest, quota: Quota, window: Window, now: int) -> set[KafkaDifference]:
        """Return the rules that make a difference for a request at `now` [epoch ms]."""
        rules = {
            KafkaDifference.BURST: quota.burst is not None and quota.burst != window.burst(quota.rate),
            KafkaDifference.DEBT: quota.max_debt_ms is not None,
            KafkaDifference.VALIDATE_ONLY: request.validate_only,
        }
        if self.tokens is not None:
            rules |= {
                KafkaDifference.EXPIRED: now - self.charged_at >= _EXPIRES_MS,
                KafkaDifference.CLOCK: now < self.updated_at,
                KafkaDifference.QUOTA_CHANGED: quota.rate != self.rate,
            }
        return {rule for rule, holds in rules.items() if holds}

    def fill(self, cause: KafkaDifference) -> None:
        """Fill the bucket, and record the cause."""
        if self.tokens is not None:
            self.tokens = None
            self.causes.add(cause)

    def compare(self, ours: float) -> None:
        """Forget the causes if our bucket holds the same tokens."""
        if self.tokens is not None and abs(self.tokens - ours) <= _EQUAL * max(1.0, abs(ours)):
            self.causes.clear()

    def _tokens_at(self, quota: Quota, window: Window, now: int) -> float:
        burst = window.burst(quota.rate)
        if self.tokens is None or now - self.charged_at >= _EXPIRES_MS:
            return burst
        return min(self.tokens + (now - self.updated_at) / 1000 * quota.rate, burst)
