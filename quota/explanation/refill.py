"""The refill of a bucket: its tokens before a decision, computed from the decision that wrote it last."""

import enum
import math
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from quota.algorithms.token_bucket import Bucket, clock_of, is_reset, tokens_at
from quota.explanation.quota_history import QuotaHistory
from quota.records.decision import Decision
from quota.records.fields import BEGINNING
from quota.records.levels import Limit
from quota.records.quota_log import Quota, Window


class Origin(enum.Enum):
    """The origin of K before: a bucket that was never charged, a reset, or the last write."""

    NEVER_CHARGED = "NEVER_CHARGED"
    RESET = "RESET"
    LAST_WRITE = "LAST_WRITE"


class Gain(msgspec.Struct, frozen=True):
    """The tokens gained by one quota: `tokens` = min(`tokens_before` + seconds * `rate`, `burst`); times: epoch ms."""

    since: int
    until: int
    rate: float
    burst: float
    tokens_before: float
    tokens: float

    @property
    def late_ms(self) -> int:
        """The time by which a late request is before T, the time of the bucket; it gains nothing [ms]."""
        return max(self.since - self.until, 0)


class Refill(msgspec.Struct, frozen=True):
    """The tokens of a bucket at a request, computed from its last write."""

    origin: Origin
    written_by: str | None
    """The id of the decision that wrote the bucket last."""
    reset_at: int | None
    """The latest reset of the bucket [epoch ms]."""
    gains: list[Gain]
    """The gain by the quota last applied, and if the quota has changed since, the gain by the current one."""
    tokens: float | None
    """K before, as computed; None if the time of the quota change is unknown."""


class LastWrite(NamedTuple):
    """The decision that wrote a bucket last, and the bucket afterwards."""

    decision: Decision
    bucket: Bucket


def find_last_write(before: Iterable[Decision]) -> LastWrite | None:
    """Return the last write of a bucket; None without an earlier decision.

    `before` are the earlier decisions of the bucket, newest first. They are read until one that was charged, and
    before it gained tokens: so it wrote T. From there on the bucket is followed through the later ones. If the
    decisions do not reach back that far, the oldest of them counts as this one: its tokens are the same except for
    rounding.
    """
    later: list[Decision] = []
    for decision in before:
        if decision.validate_only:
            continue
        if later and later[-1].charged and _tokens(later[-1].tokens_before) > _tokens(decision.tokens):
            break
        later.append(decision)
    if not later:
        return None
    written = LastWrite(later[-1], Bucket.after(later[-1]))
    for decision in reversed(later[:-1]):
        written = _follow(written, decision)
    return written


def _follow(written: LastWrite, decision: Decision) -> LastWrite:
    """Return the last write after a decision, by the rule of `TokenBucket.admit`."""
    bucket, after = written.bucket, Bucket.after(decision)
    if after.updated_at < bucket.updated_at and after.clock != bucket.clock:  # it was late, and left T
        if not decision.charged:
            return written
        return LastWrite(decision, msgspec.structs.replace(bucket, tokens=after.tokens))
    is_set_back = after.updated_at < bucket.updated_at
    return LastWrite(decision, after) if decision.charged or is_set_back or bucket.differs(after.quota) else written


def _tokens(recorded: float | None) -> float:
    return -math.inf if recorded is None else recorded


def compute_refill(
    decision: Decision, quota: Quota, last_write: LastWrite | None, quotas: QuotaHistory, window: Window
) -> tuple[Refill, Bucket | None]:
    """Compute K before a decision; return it with the bucket as last written, None if it was never charged."""
    reset_at = quotas.reset_at(decision)
    reset = last_write is not None and is_reset(quotas.reset_at(last_write.decision), reset_at)
    bucket = (
        None
        if last_write is None or reset
        else last_write.bucket.set_back(decision.timestamp, clock_of(decision.source))
    )
    origin = Origin.RESET if reset else Origin.LAST_WRITE if last_write else Origin.NEVER_CHARGED
    since = quotas.since(decision) if bucket and bucket.differs(quota) else BEGINNING
    gains: list[Gain] = []
    tokens = None
    if since is not None:
        limit = Limit(quota, since)
        gains = _gains(bucket, limit, decision.timestamp, window) if bucket else []
        tokens = tokens_at(decision.timestamp, bucket, limit, window)
    return Refill(origin, last_write.decision.decision_id if last_write else None, reset_at, gains, tokens), bucket


def _gains(bucket: Bucket, limit: Limit, now: int, window: Window) -> list[Gain]:
    """Return the gain by the quota last applied until the current one took effect, and by that one from then on."""
    if not bucket.differs(limit.quota):
        return [_gain(bucket, now, tokens_at(now, bucket, limit, window), window)]
    last_applied = Limit(bucket.quota, BEGINNING)
    changed_at = max(min(limit.since, now), bucket.updated_at)
    changed = Bucket(tokens_at(changed_at, bucket, limit, window), changed_at, limit.quota)
    return [
        _gain(bucket, changed_at, tokens_at(changed_at, bucket, last_applied, window), window),
        _gain(changed, now, tokens_at(now, bucket, limit, window), window),
    ]


def _gain(bucket: Bucket, until: int, tokens: float, window: Window) -> Gain:
    rate, burst = bucket.quota.rate, window.burst(bucket.quota.rate, bucket.quota.burst)
    return Gain(bucket.updated_at, until, rate, burst, bucket.tokens, tokens)
