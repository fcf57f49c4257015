"""The two quotas on a rate, compared with the token bucket: KIP-599's worked example, and what the KIP leaves open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.records.decision import Outcome
from quota.records.quota import Window
from quota.whatif.rates import AlgorithmName, make_algorithm
from tests.support.factories import PERMISSIVE, STRICT, resolved

KIP = Window(num=100)
BUCKET, SAMPLED, SPREAD = (make_algorithm(name, KIP) for name in AlgorithmName)
RATES = pytest.mark.parametrize("algorithm", [SAMPLED, SPREAD], ids=["sampled", "spread"])
ALL = pytest.mark.parametrize("algorithm", [BUCKET, SAMPLED, SPREAD], ids=["bucket", "sampled", "spread"])
BURST = [80] * 7


def outcomes(algorithm, *requests):
    """Outcome and controller throttle time of each."""
    _, decisions = decide(None, requests, algorithm)
    return [(each.outcome.value, each.controller_throttle_ms) for each in decisions]


def test_only_the_sampled_rate_may_refuse_a_client_that_waited():
    """All three admit 500 at once; of what comes 20 s later the bucket and the spread rate admit 100 without debt."""
    requests = [resolved(500), resolved(100, at=20_000), resolved(1, at=20_000)]
    assert [outcome for outcome, _ in outcomes(BUCKET, *requests)] == ["ADMITTED"] * 3
    assert [outcome for outcome, _ in outcomes(SPREAD, *requests)] == ["ADMITTED"] * 3
    assert outcomes(SAMPLED, *requests)[2] == ("REJECTED", 20_000)  # 600 / 100 = 6, and (6 - 5) / 5 * 100


@ALL
def test_all_algorithms_admit_a_rate_equal_to_the_quota(algorithm):
    """R <= Q, and K >= 0."""
    assert outcomes(algorithm, resolved(500), resolved(1), resolved(0)) == [
        ("ADMITTED", 0),
        ("ADMITTED", 0),
        ("REJECTED", 200),
    ]


@ALL
def test_topics_are_admitted_one_by_one_and_refused_ones_are_not_charged(algorithm):
    """The first two of 300, 300, 1 and 0 are admitted; 600 of 500 take 20 s."""
    state, (decision,) = decide(None, [resolved(300, 300, 1, 0)], algorithm)
    assert [topic.error_code for topic in decision.topics] == [0, 0, 89, 89]
    assert (decision.outcome, decision.throttle_time_ms) == (Outcome.PARTIAL, 20_000)
    assert outcome_of(algorithm, state, resolved(1)) == ("REJECTED", 20_000)


@ALL
def test_an_old_client_is_admitted_charged_and_throttled(algorithm):
    """560 of 500 take 12 s, 640 take 28."""
    old = [resolved(*BURST, api_version=PERMISSIVE), resolved(80, api_version=PERMISSIVE)]
    assert outcomes(algorithm, *old) == [("ADMITTED", 12_000), ("ADMITTED", 28_000)]


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
    state, _ = decide(None, [resolved(*BURST)], algorithm)
    after, (decision,) = decide(state, [resolved(80, **unthrottled)], algorithm)
    assert after == state
    assert (decision.outcome, decision.throttle_time_ms) == (Outcome.ADMITTED, 0)
    assert (decision.shadow and decision.shadow.throttle_time_ms) == shadow


@RATES
def test_without_a_quota_everything_is_admitted_and_no_state_is_touched(algorithm):
    state, (decision,) = decide(None, [resolved(10**9, rate=None)], algorithm)
    assert (state, decision.outcome, decision.quota, decision.burst) == (None, Outcome.ADMITTED, None, None)


@ALL
def test_a_reset_forgives_once(algorithm):
    requests = [resolved(*BURST), resolved(560, at=2000, reset_at=1000), resolved(1, at=2000, reset_at=1000)]
    assert outcomes(algorithm, *requests) == [("ADMITTED", 0), ("ADMITTED", 0), ("REJECTED", 12_000)]


@RATES
def test_a_decision_by_a_rate_names_its_algorithm(algorithm):
    """It has no tokens, the burst that follows from the quota, and no bound on debt, whatever the quota sets."""
    attempts = resolved(560, burst=1000.0, max_debt_ms=1, api_version=PERMISSIVE)
    _, (decision,) = decide(None, [attempts], algorithm)
    assert decision.throttle_time_ms == 12_000
    assert (decision.tokens_before, decision.tokens) == (None, None)
    assert (decision.quota, decision.burst, decision.max_debt_ms) == (5, 500, None)


@RATES
def test_a_changed_quota_is_retroactive(algorithm):
    """560 / 100 is above 5 and below 6; 400 / 100 is above 2, and (4 - 2) / 2 * 100 = 100 s."""
    raised = [resolved(*BURST), resolved(1), resolved(1, rate=6.0, since=0)]
    assert outcomes(algorithm, *raised) == [("ADMITTED", 0), ("REJECTED", 12_000), ("ADMITTED", 0)]
    lowered = [resolved(400), resolved(1, rate=2.0, since=0)]
    assert outcomes(algorithm, *lowered) == [("ADMITTED", 0), ("REJECTED", 100_000)]


@ALL
def test_a_late_request_of_another_partition_frees_nothing_and_costs_nothing(algorithm):
    """It waits until the time of the bucket, too."""
    requests = [resolved(560, at=200_000), resolved(80, at=100_000, partition=1), resolved(80, at=200_000)]
    assert outcomes(algorithm, *requests) == [("ADMITTED", 0), ("REJECTED", 112_000), ("REJECTED", 12_000)]


@ALL
def test_a_huge_charge_has_the_largest_throttle_time_of_the_protocol(algorithm):
    assert outcomes(algorithm, resolved(2**31 - 1), resolved(1))[1] == ("REJECTED", MAX_THROTTLE_MS)


@RATES
def test_after_all_windows_even_a_huge_charge_is_forgotten(algorithm):
    """A Rate forgets charges after S * W, whereas a bucket's debt lasts until it is paid off."""
    requests = [resolved(2**31 - 1), resolved(1, at=100_000)]
    assert outcomes(algorithm, *requests)[1] == ("ADMITTED", 0)
    assert outcomes(BUCKET, *requests)[1] == ("REJECTED", MAX_THROTTLE_MS)


@given(
    st.sampled_from([SAMPLED, SPREAD]),
    st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 900), st.sampled_from([STRICT, PERMISSIVE])), max_size=20),
    st.data(),
)
def test_requests_are_decided_equally_in_any_batches(algorithm, attempts, data):
    requests = [resolved(cost, at=at, api_version=version) for at, cost, version in attempts]
    cut = data.draw(st.integers(0, len(requests)))
    _, whole = decide(None, requests, algorithm)
    state, first = decide(None, requests[:cut], algorithm)
    _, second = decide(state, requests[cut:], algorithm)
    assert whole == [*first, *second]


@given(
    st.floats(min_value=1e-3, max_value=1e6),
    st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 10**6)), min_size=1, max_size=20),
)
def test_a_client_that_waits_the_spread_rates_throttle_time_and_a_window_is_admitted(rate, attempts):
    """W = 1 s, after any earlier charges."""
    requests = [resolved(cost, at=at, rate=rate) for at, cost in sorted(attempts)]
    state, decisions = decide(None, requests, SPREAD)
    if decisions[-1].outcome is Outcome.REJECTED and decisions[-1].throttle_time_ms < MAX_THROTTLE_MS:
        waited = resolved(1, at=decisions[-1].retry_at + 1000, rate=rate)
        assert outcome_of(SPREAD, state, waited)[0] == "ADMITTED"


def outcome_of(algorithm, state, request):
    _, (decision,) = decide(state, [request], algorithm)
    return decision.outcome.value, decision.controller_throttle_ms
