"""The two quotas on a rate, step by step: what KIP-599 leaves open, and where their charges are.

`tests/unit/docs/pages/test_algorithms_page.py` has the KIP's worked example, beside the token bucket.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.algorithms.token_bucket import MAX_THROTTLE_MS, TokenBucket
from quota.records.decision import Outcome
from quota.records.quota_log import Window
from quota.whatif.rejected_algorithms import NO_SPREAD, AlgorithmName, make_algorithm
from tests.support.factories import PERMISSIVE, decide_all, resolved

KIP = Window(num=100)
SAMPLED, SPREAD = (make_algorithm(name, KIP) for name in (AlgorithmName.SAMPLED_RATE, AlgorithmName.SPREAD_RATE))
RATES = pytest.mark.parametrize("algorithm", [SAMPLED, SPREAD], ids=["sampled", "spread"])
BURST = [80] * 7


def outcomes(algorithm, *requests):
    """Outcome and controller throttle time of each."""
    _, decisions = decide_all(*requests, algorithm=algorithm)
    return [(decision.outcome.value, decision.controller_throttle_ms) for decision in decisions]


ADMITTED = ("ADMITTED", 0)
CASES = {
    # R <= Q, as K >= 0 in a bucket.
    "a rate equal to the quota is admitted": (
        [resolved(500), resolved(1), resolved(0)],
        [ADMITTED, ADMITTED, ("REJECTED", 200)],
    ),
    # 560 of 500 take 12 s, 640 take 28.
    "an old client is admitted, charged and throttled": (
        [resolved(*BURST, api_version=PERMISSIVE), resolved(80, api_version=PERMISSIVE)],
        [("ADMITTED", 12_000), ("ADMITTED", 28_000)],
    ),
    "a reset forgives once": (
        [resolved(*BURST), resolved(560, at=2000, reset_at=1000), resolved(1, at=2000, reset_at=1000)],
        [ADMITTED, ADMITTED, ("REJECTED", 12_000)],
    ),
    # 560 / 100 is above 5 and below 6.
    "a raised quota is retroactive": (
        [resolved(*BURST), resolved(1), resolved(1, rate=6.0, since=0)],
        [ADMITTED, ("REJECTED", 12_000), ADMITTED],
    ),
    # 400 / 100 is above 2, and (4 - 2) / 2 * 100 = 100 s.
    "a lowered quota is retroactive": (
        [resolved(400), resolved(1, rate=2.0, since=0)],
        [ADMITTED, ("REJECTED", 100_000)],
    ),
    # It waits until the time of the newest charge, too.
    "a late request of another partition frees nothing and costs nothing": (
        [resolved(560, at=200_000), resolved(80, at=100_000, partition=1), resolved(80, at=200_000)],
        [ADMITTED, ("REJECTED", 112_000), ("REJECTED", 12_000)],
    ),
    "a huge charge has the largest throttle time of the protocol": (
        [resolved(2**31 - 1), resolved(1)],
        [ADMITTED, ("REJECTED", MAX_THROTTLE_MS)],
    ),
    "after all windows even a huge charge is forgotten": (
        [resolved(2**31 - 1), resolved(1, at=100_000)],
        [ADMITTED, ADMITTED],
    ),
}
"""Requests, and the outcome and the throttle time of each."""


@RATES
@pytest.mark.parametrize("case", CASES)
def test_requests_are_decided_by_the_rate(algorithm, case):
    requests, expected = CASES[case]
    assert outcomes(algorithm, *requests) == expected


@RATES
def test_topics_are_admitted_one_by_one_and_rejected_ones_are_not_charged(algorithm):
    """The first two of 300, 300, 1 and 0 are admitted; 600 of 500 take 20 s."""
    state, decision = decide(None, resolved(300, 300, 1, 0), algorithm)
    assert [topic.error_code for topic in decision.topics] == [0, 0, 89, 89]
    assert (decision.outcome, decision.throttle_time_ms) == (Outcome.PARTIAL, 20_000)
    assert outcome_of(algorithm, state, resolved(1)) == ("REJECTED", 20_000)


@RATES
@pytest.mark.parametrize(
    ("unthrottled", "shadow"),
    [
        ({"validate_only": True}, None),
        ({"validate_only": True, "api_version": PERMISSIVE}, None),
        ({"shadow": True}, 12_000),
    ],
)
def test_what_is_only_validated_or_in_shadow_is_admitted_and_not_charged(algorithm, unthrottled, shadow):
    state, _ = decide(None, resolved(*BURST), algorithm)
    after, decision = decide(state, resolved(80, **unthrottled), algorithm)
    assert after == state
    assert (decision.outcome, decision.throttle_time_ms) == (Outcome.ADMITTED, 0)
    assert (decision.shadow and decision.shadow.throttle_time_ms) == shadow


@RATES
def test_a_decision_has_no_tokens_and_neither_a_burst_nor_a_bound_on_debt_of_its_own(algorithm):
    """The burst follows from the quota, whatever the quota sets. Without a quota no state is touched."""
    attempts = resolved(560, burst=1000.0, max_debt_ms=1, api_version=PERMISSIVE)
    _, decision = decide(None, attempts, algorithm)
    assert decision.throttle_time_ms == 12_000
    assert (decision.tokens_before, decision.tokens) == (None, None)
    assert (decision.quota, decision.burst, decision.max_debt_ms) == (5, 500, None)
    state, decision = decide(None, resolved(10**9, rate=None), algorithm)
    assert (state, decision.outcome, decision.quota, decision.burst) == (None, Outcome.ADMITTED, None, None)


@given(
    st.floats(min_value=1e-3, max_value=1e6),
    st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 150)), min_size=1, max_size=20),
    st.integers(1, 90),
)
def test_a_client_that_waits_the_spread_rates_throttle_time_and_a_window_is_admitted(rate, attempts, excess):
    """W = 1 s, after any earlier charges. Each is of what the quota gives in some seconds."""
    requests = [resolved(math.ceil(seconds * rate), at=at, rate=rate) for at, seconds in sorted(attempts)]
    now = max(at for at, _ in attempts)
    over = resolved(math.ceil((100 + excess) * rate), at=now, rate=rate, api_version=PERMISSIVE)
    state, decisions = decide_all(*requests, over, resolved(1, at=now, rate=rate), algorithm=SPREAD)
    assert decisions[-1].outcome is Outcome.REJECTED
    waited = resolved(1, at=decisions[-1].retry_at + 1000, rate=rate)
    assert outcome_of(SPREAD, state, waited) == ("ADMITTED", 0)


def outcome_of(algorithm, state, request):
    _, decision = decide(state, request, algorithm)
    return decision.outcome.value, decision.controller_throttle_ms


FIVE = Window(num=5)
windows = st.sampled_from([Window(1, 1), Window(2, 1), Window(11, 1), Window(10, 2)])
charges = st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 300)), max_size=40)
rates = st.floats(min_value=1e-3, max_value=1e3)


def of(*charges, window, rate):
    spread = NO_SPREAD
    for at, cost in charges:
        spread = spread.add(cost, at, window, rate)
    return spread


@given(charges, windows, rates)
def test_spreading_conserves_what_is_charged(charges, window, rate):
    """The sum contains the earlier charges that still count, and the new one."""
    spread = NO_SPREAD
    for at, cost in charges:
        before = spread.at(at, window).total
        spread = spread.add(cost, at, window, rate)
        assert spread.total == pytest.approx(before + cost, rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=40), st.sampled_from([1, 5, 7]))
def test_up_to_the_first_overdraft_it_equals_the_token_bucket_at_the_ends_of_windows(charges, rate):
    """The rest of Q * S * W equals the bucket's tokens, which is why the KIP says that a Rate can behave like one."""
    bucket, state, spread = TokenBucket(Window()), None, NO_SPREAD
    for second, cost in sorted(charges):
        state, admission = bucket.admit(state, resolved(cost, at=second * 1000, rate=float(rate)))
        spread = spread.add(cost, second * 1000, bucket.window, rate)
        if admission.tokens < 0:
            return
        assert 11 * rate - spread.total == admission.tokens
