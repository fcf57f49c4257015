"""The token bucket of KIP-599: it may go negative, and that debt is what throttles.

Units: rates in partition mutations per second, tokens in partition mutations, times in
epoch milliseconds, throttle times in milliseconds.
"""

import math
import sys
from dataclasses import dataclass

import msgspec

from quota.algorithms.deduplication import AdmittedRequests
from quota.records.quota import Limit, Quota

MAX_THROTTLE_MS = 2**31 - 1
"""`throttle_time_ms` is an int32 in Kafka's protocol."""

# A debt this small is rounding of floats and counts as none: whoever waited the told time is admitted.
_ROUNDING_ABSOLUTE = 1e-9
_ROUNDING_RELATIVE = 1e-12


@dataclass(frozen=True, slots=True)
class Window:
    """How much of a quota may be used at once.

    `num` is `controller.quota.window.num` (S, samples), `size_seconds` is
    `controller.quota.window.size.seconds` (W); the defaults are Kafka's.
    """

    num: int = 11
    size_seconds: int = 1

    @property
    def size_ms(self) -> int:
        """W in milliseconds."""
        return self.size_seconds * 1000

    @property
    def total_ms(self) -> int:
        """S * W in milliseconds."""
        return self.num * self.size_ms

    def burst(self, rate: float, own: float | None = None) -> float:
        """B: a quota's own, or Q * S * W, kept finite for any finite rate."""
        return own if own is not None else min(rate * self.num * self.size_seconds, sys.float_info.max)


class Bucket(msgspec.Struct, frozen=True):  # a struct, because it is made anew by each charge
    """State of one bucket: `tokens` (K) as written at `updated_at` (T), and the quota it was last used at."""

    tokens: float
    updated_at: int
    rate: float
    burst: float | None = None
    max_debt_ms: int | None = None
    reset_at: int | None = None
    """The latest reset by an operator that this bucket has followed, epoch ms."""
    remembered: AdmittedRequests = {}
    """The requests that it has admitted of late, where the settings want them to be remembered."""

    def differs(self, quota: Quota) -> bool:
        """Whether it was filled and emptied by other bounds than those of a quota."""
        return self.rate != quota.rate or self.burst != quota.burst or self.max_debt_ms != quota.max_debt_ms


def tokens_at(now: int, bucket: Bucket | None, limit: Limit, window: Window) -> float:
    """K at `now`: what the bucket holds after the time since T, at most the burst B.

    A bucket never seen is full. Time never runs backwards: an earlier `now` adds nothing and takes nothing.
    Where the quota has changed, the bucket gained by the old one until the change and by
    the present one from then on, so that raising a quota gives no present for the past.
    """
    quota = limit.quota
    burst = window.burst(quota.rate, quota.burst)
    if bucket is None:
        return burst
    tokens, since = bucket.tokens, bucket.updated_at
    if now < since:  # what was granted then may not be what is granted by now
        return min(tokens, window.burst(bucket.rate, bucket.burst))
    if bucket.differs(quota):
        changed_at = max(min(limit.since, now), since)
        tokens = _gain(tokens, bucket.rate, changed_at - since, window.burst(bucket.rate, bucket.burst))
        tokens = max(tokens, deepest_debt(quota))
        since = changed_at
    return _gain(tokens, quota.rate, now - since, burst)


def deepest_debt(quota: Quota) -> float:
    """The lowest K that a quota lets a bucket fall to."""
    return -math.inf if quota.max_debt_ms is None else -quota.rate * (quota.max_debt_ms / 1000)


def _gain(tokens: float, rate: float, elapsed_ms: int, burst: float) -> float:
    return min(tokens + elapsed_ms / 1000 * rate, burst)


def _rounding(stored: float) -> float:
    return _ROUNDING_ABSOLUTE + _ROUNDING_RELATIVE * abs(stored)


def in_debt(tokens: float, stored: float) -> bool:
    """Whether K is below zero by more than the rounding that a stored K of this size brings."""
    return tokens < -_rounding(stored)


def throttle_ms(tokens: float, stored: float, rate: float) -> int:
    """The time until K is back at zero: -K / R seconds, in ms rounded up, at most `MAX_THROTTLE_MS`.

    Rounded up, where Kafka rounds half up: a client that waits the told time must not be refused again.
    The rounding of a stored K is taken off first, or its last bit would cost a millisecond.
    """
    wait = (-tokens - _rounding(stored) / 2) / rate * 1000
    return MAX_THROTTLE_MS if wait >= MAX_THROTTLE_MS else max(0, math.ceil(wait))
