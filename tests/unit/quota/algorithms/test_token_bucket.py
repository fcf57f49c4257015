"""The token bucket step by step; each step has its expected tokens."""

import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.algorithms.token_bucket import MAX_THROTTLE_MS, Bucket, TokenBucket, in_debt, throttle_ms, tokens_at
from quota.records.decision import Outcome
from quota.records.levels import Limit
from quota.records.quota_log import Quota, Window
from quota.whatif.rejected_algorithms import AlgorithmName, make_algorithm
from tests.support.factories import PERMISSIVE, STRICT, resolved

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


def test_the_burst_of_a_finite_rate_is_finite():
    assert [Window(2**31).burst(rate) for rate in (1e308, 2.0)] == [sys.float_info.max, 2.0 * 2**31]


HOUR = 3_600_000
BUCKET = TokenBucket(Window(num=10))
BURST = 50
"""At the rate of `resolved`, 5 mutations/s."""

attempts = st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 100), st.sampled_from([STRICT, PERMISSIVE])))
"""Times since the previous request [ms], costs, and API versions."""
errors_of_clocks = st.integers(-400 * 24 * HOUR, 400 * 24 * HOUR)


def play(requests):
    """Decide requests in their order, as if each had a batch of its own; return the bucket and the decisions."""
    bucket, decisions = None, []
    for request in requests:
        bucket, decision = decide(bucket, request, BUCKET)
        decisions.append(decision)
    return bucket, decisions


def gains(decisions):
    """Return the tokens that the bucket gained between the decisions."""
    return sum(later.tokens_before - earlier.tokens for earlier, later in pairwise(decisions))


@given(attempts, attempts, attempts, errors_of_clocks, st.integers(1, 100))
def test_whoever_waits_the_told_time_is_admitted_after_a_clock_was_wrong(before, during, after, error, cost):
    """The clock is ahead or behind for a while; the last requests come when it is right again."""
    now, requests = 500 * 24 * HOUR, []
    for tries, wrong_by in ((before, 0), (during, error), ([*after, (0, cost, PERMISSIVE)], 0)):
        for wait, partitions, version in tries:
            now += wait
            requests.append(resolved(partitions, at=now + wrong_by, api_version=version))
    bucket, decisions = play(requests)

    bucket, told = decide(bucket, resolved(1, at=now), BUCKET)
    assert told.throttle_time_ms <= -min(decisions[-1].tokens, 0) / 5 * 1000 + 1
    if decisions[-1].tokens < -1e-6:  # more than rounding, which is no debt
        _, waited = decide(bucket, resolved(1, at=now + told.throttle_time_ms), BUCKET)
        assert (told.outcome, waited.outcome) == (Outcome.REJECTED, Outcome.ADMITTED)


@given(attempts, st.integers(0, 5), errors_of_clocks)
def test_a_wrong_time_gives_no_more_than_it_is_ahead_and_never_more_than_a_burst(tries, wrong, error):
    """One request of them has it."""
    now, requests = 500 * 24 * HOUR, []
    for number, (wait, partitions, version) in enumerate(tries):
        now += wait
        requests.append(resolved(partitions, at=now + error * (number == wrong), api_version=version))
    _, decisions = play(requests)

    assert all(decision.tokens_before <= BURST for decision in decisions)
    passed = sum(wait for wait, _, _ in tries[1:])
    assert gains(decisions) <= (passed + abs(error)) / 1000 * 5 + 1e-3


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20_000), st.integers(1, 100)), min_size=1),
    st.tuples(*[st.integers(-HOUR, HOUR)] * 3),
    st.integers(1, 100),
)
def test_partitions_whose_clocks_differ_give_no_more_than_the_time_that_passed(tries, differences, cost):
    """Their requests alternate; the throttle time is by the clock of the client's own partition."""
    now, requests = 500 * 24 * HOUR, []
    for partition, wait, partitions in [*tries, (0, 0, cost)]:
        now += wait
        requests.append(
            resolved(partitions, at=now + differences[partition], partition=partition, api_version=PERMISSIVE)
        )
    bucket, decisions = play(requests)

    times = [decision.timestamp for decision in decisions]
    assert gains(decisions) <= (max(times) - times[0]) / 1000 * 5 + 1e-3
    own = now + differences[0] + decisions[-1].controller_throttle_ms
    _, waited = decide(bucket, resolved(1, at=own), BUCKET)
    assert waited.outcome is Outcome.ADMITTED


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 20_000), st.integers(1, 100)), min_size=1),
    st.tuples(*[st.integers(0, HOUR)] * 3),
)
def test_observed_requests_of_late_logs_among_others_give_no_more_than_the_time_that_passed(tries, behind):
    """Three logs, each as far behind as its observer, write to any partition of a bucket that others use, too."""
    now, requests = 500 * 24 * HOUR, []
    for log, partition, wait, partitions in tries:
        now += wait
        if log == len(behind):
            requests.append(resolved(partitions, at=now, partition=partition, api_version=PERMISSIVE))
        else:
            observed = {"at": now - behind[log], "error_codes": [0]}
            requests.append(resolved(partitions, at=observed["at"], partition=partition, observed=observed))
    _, decisions = play(requests)

    times = [decision.timestamp for decision in decisions]
    assert gains(decisions) <= (max(times) - times[0]) / 1000 * 5 + 1e-3


@pytest.mark.parametrize("name", AlgorithmName)
def test_two_observed_logs_that_differ_by_ten_seconds_get_the_quota_once(name):
    """5/s and a burst of 50 for twenty seconds of both logs: 150, and 10 for the topic that overdraws. Not 1,200."""
    algorithm, state, admitted = make_algorithm(name, Window(num=10)), None, 0
    for second in range(20):
        for at in (second * 1000 + 10_000, second * 1000):
            observed = {"at": at, "error_codes": [0] * 5}
            request = resolved(*[10] * 5, at=at, observed=observed)
            state, decision = decide(state, request, algorithm)
            admitted += 10 * sum(decision.admitted)
    assert admitted <= 50 + 20 * 5 + 10


def test_the_bucket_that_a_decision_has_left_has_the_time_of_the_newest_request():
    """-10 at ten seconds. A log that is ten seconds behind does not change that; a clock that was set back does.

    Neither does the log change the rate, which was higher then.
    """
    observed = {"at": 0, "error_codes": [0]}
    late = [resolved(60, at=10_000), resolved(5, at=0, rate=50.0, observed=observed, api_version=PERMISSIVE)]
    set_back = [resolved(60, at=10_000), resolved(5, at=0, api_version=PERMISSIVE)]
    for requests, updated_at in ((late, 10_000), (set_back, 0)):
        bucket, decisions = play(requests)
        after = Bucket.after(decisions[-1])
        assert (after.tokens, after.updated_at) == (bucket.tokens, bucket.updated_at) == (-15, updated_at)
        assert after.quota.rate == bucket.quota.rate == 5


@pytest.mark.parametrize("ahead", [HOUR, 73 * 365 * 24 * HOUR])
@pytest.mark.parametrize("name", AlgorithmName)
def test_a_clock_that_was_ahead_once_freezes_no_algorithm(name, ahead):
    """30 of 50 are used, then the time is wrong once, then 80 are used; all windows have passed after 10 s more."""
    algorithm, state, outcomes = make_algorithm(name, Window(num=10)), None, []
    for at, partitions in ((0, 30), (ahead, 1), (1000, 80), (2000, 1), (30_000, 1)):
        state, decision = decide(state, resolved(partitions, at=at), algorithm)
        outcomes.append(decision.outcome.value)
    assert outcomes == ["ADMITTED", "ADMITTED", "ADMITTED", "REJECTED", "ADMITTED"]
