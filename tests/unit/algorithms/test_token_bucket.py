"""The token bucket step by step; each step has its expected tokens."""

import math

import pytest

from quota.algorithms.token_bucket import MAX_THROTTLE_MS, Bucket, in_debt, throttle_ms, tokens_at
from quota.records.quota import Limit, Quota, Window

KIP = Window(num=100)


def at_rate(rate: float, since: int = 0) -> Limit:
    return Limit(Quota(rate), since)


FIVE, TWENTY = Quota(5), Quota(20)
STEPS = {
    "a bucket never seen is full": (1234, None, at_rate(5), 500),
    "tokens come back at the rate": (2000, Bucket(-60, 0, FIVE), at_rate(5), -50),
    "tokens stop at the burst": (10**9, Bucket(-60, 0, FIVE), at_rate(5), 500),
    "time never runs backwards": (500, Bucket(7, 1000, FIVE), at_rate(5), 7),
    # Kafka would give all twenty seconds at 20.
    "a raised quota is not retroactive": (20_000, Bucket(-400, 0, FIVE), at_rate(20, 10_000), -400 + 50 + 200),
    "a lowered quota is not retroactive": (20_000, Bucket(-400, 0, TWENTY), at_rate(5, 10_000), -400 + 200 + 50),
    # At 1/s the bucket has at most 100, however long it waits for the rate of 5.
    "the old rate fills up to its own burst": (1_001_000, Bucket(0, 0, Quota(1)), at_rate(5, 1_000_000), 100 + 5),
    "a lowered quota cuts the bucket to its burst": (1000, Bucket(400, 0, FIVE), at_rate(1, 500), 100),
    "a change before the last use counts from it": (2000, Bucket(0, 1000, FIVE), at_rate(20, 500), 20),
    "a late request gains nothing by a change": (500, Bucket(0, 1000, FIVE), at_rate(20, 400), 0),
}
"""The time, the bucket, the quota, and the tokens at that time."""


@pytest.mark.parametrize("step", STEPS)
def test_the_tokens_at_a_time(step):
    now, bucket, limit, tokens = STEPS[step]
    assert tokens_at(now, bucket, limit, KIP) == tokens


@pytest.mark.parametrize(
    ("tokens", "rate", "expected"),
    [
        (-60.0, 5.0, 12_000),
        (-1.0, 3.0, 334),  # rounded up
        (0.0, 5.0, 0),
        (-1e300, 1e-300, MAX_THROTTLE_MS),
        (-2147483.647, 1.0, MAX_THROTTLE_MS),
        (-9.336000000000013, 8.0, 1167),  # -152 after 17,833 ms at 8: exactly -9.336, but for the last bit
    ],
)
def test_the_throttle_time_is_the_debt_at_the_rate_rounded_up(tokens, rate, expected):
    assert throttle_ms(tokens, tokens, rate) == expected


def test_a_debt_within_rounding_is_ignored():
    assert not in_debt(-9e-10, stored=0)
    assert in_debt(-2e-9, stored=0)
    assert not in_debt(-9e-4, stored=-1e9)
    assert in_debt(-2e-3, stored=-1e9)


def test_the_burst_stays_finite():
    assert math.isfinite(Window(2**31).burst(1e308))
