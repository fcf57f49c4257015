"""The two quotas on a rate, compared with the token bucket: KIP-599's worked example, and what the KIP leaves open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.algorithms.token_bucket import MAX_THROTTLE_MS, TokenBucket
from quota.records.decision import Outcome
from quota.records.quota import Window
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.spread_windows import NO_SPREAD, SpreadWindows
from tests.support.factories import PERMISSIVE, STRICT, resolved

KIP = Window(num=100)
BUCKET, SAMPLED, SPREAD = (make_algorithm(name, KIP) for name in AlgorithmName)
RATES = pytest.mark.parametrize("algorithm", [SAMPLED, SPREAD], ids=["sampled", "spread"])
ALL = pytest.mark.parametrize("algorithm", [BUCKET, SAMPLED, SPREAD], ids=["bucket", "sampled", "spread"])
BURST = [80] * 7


def outcomes(algorithm, *requests):
    """Outcome and controller throttle time of each."""
    _, decisions = decide(None, requests, algorithm)
    return [(decision.outcome.value, decision.controller_throttle_ms) for decision in decisions]


def test_only_the_sampled_rate_may_reject_a_client_that_waited():
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
def test_topics_are_admitted_one_by_one_and_rejected_ones_are_not_charged(algorithm):
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


FIVE = Window(num=5)
windows = st.sampled_from([Window(1, 1), Window(2, 1), Window(11, 1), Window(10, 2)])
charges = st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 300)), max_size=40)
rates = st.floats(min_value=1e-3, max_value=1e3)


def of(*charges, window, rate):
    spread = NO_SPREAD
    for at, cost in charges:
        spread = spread.add(cost, at, window, rate)
    return spread


def test_the_kips_burst_fills_99_windows_with_5_and_one_with_65():
    """560 at Q = 5, S = 100: the average is still 5.6, and 12 windows later it is 5."""
    spread = of((1_000_000, 560), window=KIP, rate=5)
    assert spread.levels == (5.0,) * 99 + (65.0,)
    assert spread.total / 100 == 5.6
    assert spread.at(1_011_999, KIP).total == 560 - 11 * 5
    assert spread.at(1_012_000, KIP).total / 100 == 5.0


def test_a_small_charge_goes_to_the_oldest_windows_which_expire_first():
    spread = of((4000, 12), window=FIVE, rate=5)
    assert spread == SpreadWindows(0, (5, 5, 2))
    assert [spread.at(4000 + later, FIVE).levels for later in (999, 1000, 2000, 3000)] == [
        (5, 5, 2),
        (5, 2),
        (2,),
        (),
    ]


def test_a_steady_rate_leaves_nearly_empty_windows():
    """5 each second at Q = 5: they go to the window that falls out next. For this the KIP gave it up."""
    spread = of(*((second * 1000, 5) for second in range(300)), window=KIP, rate=5)
    assert spread.total / 100 == 0.05


STEPS = {
    # Four windows of 5 and one of 10; a second later the window before has capacity for 5, the current has 1.
    "an excess stays until its window expires": ([(4000, 30), (5000, 6)], 1000, (5, 5, 5, 10, 6)),
    "later it is in an earlier window": ([(4000, 30), (6000, 6)], 2000, (5, 5, 10, 5, 1)),
    "a late charge counts as of the newest window": ([(4000, 30), (1000, 2)], 0, (5, 5, 5, 5, 12)),
    "after all windows a charge starts new ones": ([(4000, 30), (9300, 2)], 5300, (2,)),
}


@pytest.mark.parametrize("step", STEPS)
def test_charges_at_five_a_second_in_five_windows(step):
    given, begins_at, levels = STEPS[step]
    assert of(*given, window=FIVE, rate=5) == SpreadWindows(begins_at, levels)


@pytest.mark.parametrize(("rate", "levels"), [(7, (7, 7, 4)), (3, (5, 5, 3, 3, 2))])
def test_a_changed_quota_changes_the_capacity_and_takes_nothing_out_of_a_window(rate, levels):
    """From 12 charged at 5 a second."""
    assert of((4000, 12), window=FIVE, rate=5).add(6, 4000, FIVE, rate).levels == levels


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
