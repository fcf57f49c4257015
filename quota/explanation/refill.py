"""What a bucket held when a request came, reckoned from the decision that wrote it last."""

import enum
from collections.abc import Iterable

import msgspec

from quota.algorithms.algorithm import is_reset
from quota.algorithms.bucket import Bucket, Window, tokens_at
from quota.explanation.quota_history import QuotaHistory
from quota.records.decision import Decision, ErrorCode, paid_topics
from quota.records.fields import SINCE_EVER
from quota.records.quota import Limit, Quota


def last_write(before: Iterable[Decision]) -> Decision | None:
    """The decision that wrote the bucket last, of those before a moment, the newest first.

    That is the last one that charged it, or the first one that was refused by another quota. Where decisions end
    before it, it is the oldest of them: what it told of the bucket is the same but for rounding.
    """
    oldest = None
    for decision in before:
        if decision.validate_only:
            continue
        if oldest is not None and quota_of(decision) != quota_of(oldest):
            return oldest
        oldest = decision
        if is_charge(decision):
            return decision
    return oldest


def is_charge(decision: Decision) -> bool:
    """Whether a topic was charged to the bucket, which writes it even where the topic costs nothing."""
    admitted = judged_codes(decision).count(ErrorCode.NONE)
    return decision.quota is not None and not decision.validate_only and admitted > paid_topics(decision.repeats)


def judged_codes(decision: Decision) -> list[int]:
    """The error code of each topic; where the quota is in shadow, the one that would have been told."""
    return decision.shadow.error_codes if decision.shadow else [topic.error_code for topic in decision.topics]


def quota_of(decision: Decision) -> Quota | None:
    """What a decision was judged by, with the burst that came of it."""
    return None if decision.quota is None else Quota(decision.quota, decision.burst, decision.max_debt_ms)


def bucket_after(decision: Decision) -> Bucket:
    """The bucket as the decision left it that wrote it last.

    Raises:
        ValueError: the decision was unlimited, and had none.
    """
    if decision.quota is None or decision.tokens is None:
        raise ValueError(f"{decision.decision_id} touched no bucket")
    return Bucket(decision.tokens, decision.timestamp, decision.quota, decision.burst, decision.max_debt_ms)


class Origin(enum.Enum):
    """Where K before comes from."""

    FIRST_SIGHT = "FIRST_SIGHT"
    RESET = "RESET"
    LAST_WRITE = "LAST_WRITE"


class Gain(msgspec.Struct, frozen=True):
    """What a bucket gained by one quota: `tokens` = min(`tokens_before` + seconds * `rate`, `burst`)."""

    since: int
    until: int
    rate: float
    burst: float
    tokens_before: float
    tokens: float


class Refill(msgspec.Struct, frozen=True):
    """What the bucket held when the request came, reckoned from what it held before."""

    origin: Origin
    written_by: str | None
    """The decision that wrote the bucket last."""
    reset_at: int | None
    """When it was last reset, epoch ms."""
    gains: list[Gain]
    """By the quota that it was used at, and where that has changed since, by the present one from then on."""
    tokens: float | None
    """K before, as it comes out; None where nobody can tell any more when the quota changed."""


def compute_refill(
    decision: Decision, quota: Quota, written: Decision | None, quotas: QuotaHistory, window: Window
) -> tuple[Refill, Bucket | None]:
    """K before a decision, and the bucket that it comes from; None for one that was never charged.

    Args:
        decision: whose bucket it is.
        quota: by which it was decided.
        written: the decision that wrote the bucket last; None where there is none.
        quotas: which tell of resets, and of when the quota changed.
        window: of a quota whose burst was not recorded.
    """
    reset_at = quotas.reset_at(decision)
    reset = written is not None and is_reset(quotas.reset_at(written), reset_at)
    bucket = None if written is None or reset else bucket_after(written)
    origin = Origin.RESET if reset else Origin.LAST_WRITE if written else Origin.FIRST_SIGHT
    since = quotas.since(decision) if bucket and bucket.differs(quota) else SINCE_EVER
    gains: list[Gain] = []
    tokens = None
    if since is not None:
        limit = Limit(quota, since)
        gains = _gains(bucket, limit, decision.timestamp, window) if bucket else []
        tokens = tokens_at(decision.timestamp, bucket, limit, window)
    return Refill(origin, written.decision_id if written else None, reset_at, gains, tokens), bucket


def _gains(bucket: Bucket, limit: Limit, now: int, window: Window) -> list[Gain]:
    """By the quota that it was used at until the present one took effect, and by that one from then on."""
    used, quota = Limit(Quota(bucket.rate, bucket.burst, bucket.max_debt_ms), SINCE_EVER), limit.quota
    if not bucket.differs(quota):
        return [_gain(bucket, now, tokens_at(now, bucket, limit, window), window)]
    changed_at = max(min(limit.since, now), bucket.updated_at)
    changed = Bucket(tokens_at(changed_at, bucket, limit, window), changed_at, *quota.bounds)
    return [
        _gain(bucket, changed_at, tokens_at(changed_at, bucket, used, window), window),
        _gain(changed, now, tokens_at(now, bucket, limit, window), window),
    ]


def _gain(bucket: Bucket, until: int, tokens: float, window: Window) -> Gain:
    burst = window.burst(bucket.rate, bucket.burst)
    return Gain(bucket.updated_at, until, bucket.rate, burst, bucket.tokens, tokens)
