"""What a bucket held when a request came, reckoned from the decision that wrote it last."""

import enum

import msgspec

from quota.algorithms.algorithm import is_reset
from quota.algorithms.bucket import Bucket, Window, tokens_at
from quota.explanation.last_write import bucket_after
from quota.explanation.quota_history import KeptQuotas
from quota.records.decision import Decision
from quota.records.quota import Limit, Quota
from quota.timeline.change import SINCE_EVER


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


def refill_of(
    decision: Decision, quota: Quota, written: Decision | None, quotas: KeptQuotas, window: Window
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
