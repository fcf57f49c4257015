"""Admission of whole requests: strict and permissive, several topics, in order."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.algorithms.token_bucket import MAX_THROTTLE_MS, Bucket, TokenBucket
from quota.records.decision import Outcome
from quota.records.quota_log import Quota, Window
from quota.records.reason import Reason
from quota.whatif.rejected_algorithms import AlgorithmName, make_algorithm
from tests.support.factories import KIP, PERMISSIVE, decide_all, resolved, written


def test_the_worked_example_of_kip_599():
    """Q=5, S=100: seven topics of 80 are admitted, K = -60, the next is rejected with 12 s, and then admitted."""
    bucket, (seven, rejected, early, waited) = decide_all(
        resolved(*[80] * 7, at=0), resolved(80, at=0), resolved(80, at=11_999), resolved(80, at=12_000)
    )
    assert (seven.outcome, seven.tokens_before, seven.tokens, seven.throttle_time_ms) == (
        Outcome.ADMITTED,
        500,
        -60,
        0,
    )
    assert (rejected.outcome, rejected.tokens, rejected.throttle_time_ms) == (Outcome.REJECTED, -60, 12_000)
    assert rejected.retry_at == 12_000
    assert (early.outcome, early.throttle_time_ms) == (Outcome.REJECTED, 1)
    assert (waited.outcome, waited.tokens_before, waited.tokens) == (Outcome.ADMITTED, 0, -80)
    assert bucket == written(-80, 12_000, Quota(5))


@pytest.mark.parametrize(
    ("window", "requests", "steps"),
    [
        # TokenBucketTest: Q=5, W=2, S=10.
        (
            Window(num=10, size_seconds=2),
            [resolved(60, at=0), resolved(5, at=2000), resolved(60, at=4000)],
            [("ADMITTED", 100 - 60, 0), ("ADMITTED", 50 - 5, 0), ("ADMITTED", 55 - 60, 0)],
        ),
        # StrictControllerMutationQuotaTest: Q=10, S=10; 90 twice, then rejected for 8 s, 5 s later for 3 s.
        (
            Window(num=10),
            [resolved(90, rate=10.0, at=at) for at in (0, 0, 0, 5000)],
            [("ADMITTED", 10, 0), ("ADMITTED", -80, 0), ("REJECTED", -80, 8000), ("REJECTED", -30, 3000)],
        ),
        # In permissive mode the third is charged too, and throttled for 17 s.
        (
            Window(num=10),
            [resolved(90, rate=10.0, api_version=PERMISSIVE)] * 3,
            [("ADMITTED", 10, 0), ("ADMITTED", -80, 8000), ("ADMITTED", -170, 17_000)],
        ),
    ],
)
def test_kafkas_own_cases(window, requests, steps):
    _, decisions = decide_all(*requests, algorithm=TokenBucket(window))
    assert [(decision.outcome.value, decision.tokens, decision.throttle_time_ms) for decision in decisions] == steps


FIVE = Quota(5)
DEBT = Bucket(-60, 0, FIVE)
LIMITED = {"max_request_mutations": 80}
LIMIT = Quota(5, **LIMITED)
OLD, CHECK = {"api_version": PERMISSIVE}, {"at": 2000, "validate_only": True}
STEPS = {
    "a bucket at zero admits": (Bucket(0, 0, FIVE), resolved(1), ("ADMITTED", -1, 0), written(-1, 0, FIVE)),
    "who overdraws is not throttled": (None, resolved(10_000), ("ADMITTED", -9500, 0), written(-9500, 0, FIVE)),
    "an old client is charged and throttled": (
        DEBT,
        resolved(5, 5, **OLD),
        ("ADMITTED", -70, 14_000),
        written(-70, 0, FIVE),
    ),
    # Above the limit of a topic: it costs nothing, and waiting would not help.
    "a topic above the limit": (DEBT, resolved(81, at=3000, **LIMITED), ("REJECTED", -45, 0), DEBT),
    "a topic above the limit of an old client": (DEBT, resolved(81, **LIMITED, **OLD), ("REJECTED", -60, 0), DEBT),
    "a topic at the limit": (Bucket(0, 0, FIVE), resolved(80, **LIMITED), ("ADMITTED", -80, 0), written(-80, 0, LIMIT)),
    "validate-only above the limit": (DEBT, resolved(81, **CHECK, **LIMITED), ("ADMITTED", -50, 0), DEBT),
    # Neither charged nor rejected nor throttled: K is -50 after 2 s.
    "validate-only": (DEBT, resolved(80, **CHECK), ("ADMITTED", -50, 0), DEBT),
    "validate-only by an old client": (DEBT, resolved(80, **CHECK, **OLD), ("ADMITTED", -50, 0), DEBT),
    "validate-only leaves a bucket unseen": (None, resolved(80, **CHECK), ("ADMITTED", 500, 0), None),
    "a rejected request leaves the bucket": (DEBT, resolved(1, at=3000), ("REJECTED", -45, 9000), DEBT),
    # Or the next change would take the time at this rate for time at the one before it.
    "a rejected request at a new rate is stored": (
        DEBT,
        resolved(1, at=3000, rate=10.0, since=2000),
        ("REJECTED", -40, 4000),
        written(-40, 3000, Quota(10)),
    ),
    # Nothing is gained then, and time goes on from there.
    "a clock that was set back": (
        written(100, 1000, FIVE),
        resolved(10, at=500),
        ("ADMITTED", 90, 0),
        written(90, 500, FIVE),
    ),
    "a clock that was set back during a debt": (
        written(-60, 1000, FIVE),
        resolved(10, at=500),
        ("REJECTED", -60, 12_000),
        written(-60, 500, FIVE),
    ),
    # The bucket gains tokens from its time on, and the client waits until then, too.
    "a late request of another partition": (
        written(-60, 1000, FIVE, partition=3),
        resolved(10, at=500),
        ("REJECTED", -60, 12_500),
        written(-60, 1000, FIVE, partition=3),
    ),
    "a late request of another partition that is admitted": (
        written(5, 1000, FIVE, partition=3),
        resolved(10, at=500, api_version=PERMISSIVE),
        ("ADMITTED", -5, 1500),
        written(-5, 1000, FIVE, partition=3),
    ),
    # The bucket gains tokens at its own rate until the client tries again, and its own bound limits the debt.
    "a late request that knows an earlier, higher rate": (
        written(-60, 1000, FIVE, partition=3),
        resolved(10, at=500, rate=50.0),
        ("REJECTED", -60, 12_500),
        written(-60, 1000, FIVE, partition=3),
    ),
    "a late request that knows no bound on debt": (
        written(-5, 1000, Quota(5, max_debt_ms=2000), partition=3),
        resolved(100, at=500, rate=50.0, **OLD),
        ("ADMITTED", -10, 2500),
        written(-10, 1000, Quota(5, max_debt_ms=2000), partition=3),
    ),
}
"""A bucket, a request, the outcome, the tokens after it and the throttle time, and the bucket after it."""


@pytest.mark.parametrize("step", STEPS)
def test_one_request(step):
    before, request, expected, after = STEPS[step]
    bucket, (decision,) = decide_all(request, bucket=before)
    assert (decision.outcome.value, decision.tokens, decision.controller_throttle_ms) == expected
    assert bucket == after


def test_topics_are_admitted_one_by_one_in_the_requests_order():
    _, (decision,) = decide_all(resolved(300, 300, 1, 0))
    assert [topic.error_code for topic in decision.topics] == [0, 0, 89, 89]
    assert [topic.name for topic in decision.topics] == ["topic-0", "topic-1", "topic-2", "topic-3"]
    assert decision.outcome is Outcome.PARTIAL
    assert decision.tokens == -100
    assert decision.throttle_time_ms == 20_000


@pytest.mark.parametrize("algorithm", [KIP, *(make_algorithm(name, Window()) for name in AlgorithmName)])
def test_a_topic_above_the_limit_is_rejected_with_another_error_and_the_others_as_if_it_were_not_there(algorithm):
    """It says the limit, in shadow, too; only the topic that exceeds the rate throttles the client."""
    request = [90_000, 80, 80, 2_147_483_647, 80]
    _, (enforced, shadow) = decide_all(
        *(resolved(*request, **LIMITED, burst=60, shadow=shadow) for shadow in (False, True)), algorithm=algorithm
    )
    assert [topic.error_code for topic in enforced.topics][:4] == [44, 0, 0 if enforced.burst > 80 else 89, 44]
    assert (enforced.topics[0].error, enforced.topics[0].reason) == ("POLICY_VIOLATION", Reason.EXCEEDS_LIMIT)
    assert enforced.topics[0].error_message == (
        "The topic costs 90,000 mutations, and one topic may cost at most 80 (max_request_mutations); waiting does not "
        "help."
    )
    assert shadow.shadow.error_codes[::3] == [44, 44]
    assert shadow.admitted == [True] * 5


def test_a_rejected_topic_says_so():
    _, (decision,) = decide_all(resolved(1), bucket=Bucket(-5, 0, Quota(5)))
    (topic,) = decision.topics
    assert (topic.error_code, topic.error) == (89, "THROTTLING_QUOTA_EXCEEDED")
    assert topic.error_message == "The throttling quota has been exceeded."
    assert topic.reason is Reason.EXHAUSTED


def test_without_a_quota_everything_is_admitted_and_nothing_touched():
    bucket, (decision,) = decide_all(resolved(10**6, rate=None, request_throttle_ms=70))
    assert bucket is None
    assert decision.outcome is Outcome.ADMITTED
    assert (decision.quota, decision.quota_entity, decision.tokens_before, decision.tokens) == (None,) * 4
    assert decision.throttle_time_ms == 70


@pytest.mark.parametrize(
    ("request_throttle", "purgatory", "throttle"),
    [(0, 0, 12_000), (0, 2_000, 10_000), (0, 20_000, 0), (15_000, 0, 15_000), (11_000, 5_000, 11_000)],
)
def test_the_throttle_time_is_the_longest_one_less_the_time_in_purgatory(request_throttle, purgatory, throttle):
    rejected = resolved(1, at=100, request_throttle_ms=request_throttle, purgatory_ms=purgatory)
    _, (decision,) = decide_all(rejected, bucket=Bucket(-60, 100, Quota(5)))
    assert decision.controller_throttle_ms == 12_000
    assert (decision.throttle_time_ms, decision.retry_at) == (throttle, 100 + throttle)


@given(
    st.floats(min_value=1e-3, max_value=1e6),
    st.integers(1, 10**6),
    st.integers(0, 4 * 10**12),
    st.lists(st.integers(0, 10**6), max_size=5),
)
def test_after_the_throttle_time_a_request_is_always_admitted(rate, debt, now, tries):
    """Rejections in between, at any rate and any time, do not change that."""
    bucket = Bucket(-float(debt), now, Quota(rate))
    for later in itertools.accumulate(tries, initial=now):
        bucket, rejected = decide(bucket, resolved(1, at=later, rate=rate), KIP)
        if rejected.outcome is Outcome.ADMITTED:
            return
    if rejected.throttle_time_ms < MAX_THROTTLE_MS:
        _, waited = decide(bucket, resolved(1, at=rejected.retry_at, rate=rate), KIP)
        assert waited.outcome is Outcome.ADMITTED
