"""Clocks that are wrong: a bucket is never frozen by one, and gains no more than the clocks moved ahead."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide, decide_next
from quota.algorithms.token_bucket import TokenBucket
from quota.records.decision import Outcome
from quota.records.quota import Window
from quota.whatif.rates import AlgorithmName, make_algorithm
from tests.support.factories import PERMISSIVE, STRICT, resolved

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
        bucket, (decision,) = decide(bucket, [request], BUCKET)
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

    rejected = resolved(1, at=now)
    bucket, (told,) = decide(bucket, [rejected], BUCKET)
    assert told.throttle_time_ms <= -min(decisions[-1].tokens, 0) / 5 * 1000 + 1
    _, (waited,) = decide(bucket, [resolved(1, at=now + told.throttle_time_ms)], BUCKET)
    assert waited.outcome is Outcome.ADMITTED


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
    _, (waited,) = decide(bucket, [resolved(1, at=own)], BUCKET)
    assert waited.outcome is Outcome.ADMITTED


@pytest.mark.parametrize("ahead", [HOUR, 73 * 365 * 24 * HOUR])
@pytest.mark.parametrize("name", AlgorithmName)
def test_a_clock_that_was_ahead_once_freezes_no_algorithm(name, ahead):
    """30 of 50 are used, then the time is wrong once, then 80 are used; all windows have passed after 10 s more."""
    algorithm, state, outcomes = make_algorithm(name, Window(num=10)), None, []
    for at, partitions in ((0, 30), (ahead, 1), (1000, 80), (2000, 1), (30_000, 1)):
        state, decision = decide_next(state, resolved(partitions, at=at), algorithm)
        outcomes.append(decision.outcome.value)
    assert outcomes == ["ADMITTED", "ADMITTED", "ADMITTED", "REJECTED", "ADMITTED"]
