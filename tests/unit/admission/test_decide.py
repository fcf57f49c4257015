"""Admission of whole requests: strict and permissive, several topics, in order."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import Position, decide, in_order
from quota.algorithms.token_bucket import MAX_THROTTLE_MS, Bucket, TokenBucket
from quota.records.decision import Outcome
from quota.records.quota import Quota, Window
from quota.records.request import Mode
from tests.support.factories import KIP, PERMISSIVE, STRICT, decide_all, resolved


def sort(requests):
    return in_order((position(each.record), each) for each in requests)


def position(record):
    return Position(record.timestamp, record.source.topic, record.source.partition, record.source.offset)


def test_the_worked_example_of_kip_599():
    """Q=5, S=100: seven topics of 80 are admitted, K = -60, the next is refused with 12 s, and then admitted."""
    bucket, (seven, refused, early, waited) = decide_all(
        resolved(*[80] * 7, at=0), resolved(80, at=0), resolved(80, at=11_999), resolved(80, at=12_000)
    )
    assert (seven.outcome, seven.tokens_before, seven.tokens, seven.throttle_time_ms) == (
        Outcome.ADMITTED,
        500,
        -60,
        0,
    )
    assert (refused.outcome, refused.tokens, refused.throttle_time_ms) == (Outcome.REJECTED, -60, 12_000)
    assert refused.retry_at == 12_000
    assert (early.outcome, early.throttle_time_ms) == (Outcome.REJECTED, 1)
    assert (waited.outcome, waited.tokens_before, waited.tokens) == (Outcome.ADMITTED, 0, -80)
    assert bucket == Bucket(-80, 12_000, Quota(5))


def test_kafkas_own_case_with_windows_of_two_seconds():
    """Kafka's TokenBucketTest: Q=5, W=2, S=10; 100 - 60 = 40, two seconds: 50 - 5 = 45, two seconds: 55 - 60 = -5."""
    _, decisions = decide_all(
        resolved(60, at=0),
        resolved(5, at=2000),
        resolved(60, at=4000),
        algorithm=TokenBucket(Window(num=10, size_seconds=2)),
    )
    assert [(each.tokens_before, each.tokens) for each in decisions] == [(100, 40), (50, 45), (55, -5)]


def test_kafkas_own_strict_case():
    """Kafka's StrictControllerMutationQuotaTest: Q=10, S=10; 90 twice, then refused for 8 s, 5 s later for 3 s."""
    _, decisions = decide_all(
        resolved(90, rate=10.0),
        resolved(90, rate=10.0),
        resolved(90, rate=10.0),
        resolved(90, rate=10.0, at=5000),
        algorithm=TokenBucket(Window(num=10)),
    )
    assert [(each.outcome, each.tokens, each.throttle_time_ms) for each in decisions] == [
        (Outcome.ADMITTED, 10, 0),
        (Outcome.ADMITTED, -80, 0),
        (Outcome.REJECTED, -80, 8000),
        (Outcome.REJECTED, -30, 3000),
    ]


def test_kafkas_own_permissive_case():
    """In permissive mode the third is charged too, and throttled for 17 s."""
    _, decisions = decide_all(
        *[resolved(90, rate=10.0, api_version=PERMISSIVE) for _ in range(3)], algorithm=TokenBucket(Window(num=10))
    )
    assert [(each.outcome, each.tokens, each.throttle_time_ms) for each in decisions] == [
        (Outcome.ADMITTED, 10, 0),
        (Outcome.ADMITTED, -80, 8000),
        (Outcome.ADMITTED, -170, 17_000),
    ]


def test_a_bucket_at_zero_admits():
    _, (decision,) = decide_all(resolved(1), bucket=Bucket(0, 0, Quota(5)))
    assert decision.outcome is Outcome.ADMITTED


def test_topics_are_admitted_one_by_one_in_the_requests_order():
    _, (decision,) = decide_all(resolved(300, 300, 1, 0))
    assert [topic.error_code for topic in decision.topics] == [0, 0, 89, 89]
    assert [topic.name for topic in decision.topics] == ["topic-0", "topic-1", "topic-2", "topic-3"]
    assert decision.outcome is Outcome.PARTIAL
    assert decision.tokens == -100
    assert decision.throttle_time_ms == 20_000


def test_a_refused_topic_says_so():
    _, (decision,) = decide_all(resolved(1), bucket=Bucket(-5, 0, Quota(5)))
    (topic,) = decision.topics
    assert (topic.error_code, topic.error) == (89, "THROTTLING_QUOTA_EXCEEDED")
    assert topic.error_message == "The throttling quota has been exceeded."


def test_a_strict_request_that_overdraws_is_not_throttled_itself():
    _, (decision,) = decide_all(resolved(10_000))
    assert (decision.tokens, decision.controller_throttle_ms) == (-9500, 0)


def test_a_permissive_request_in_debt_is_admitted_charged_and_throttled():
    bucket, (decision,) = decide_all(resolved(5, 5, api_version=PERMISSIVE), bucket=Bucket(-60, 0, Quota(5)))
    assert decision.mode is Mode.PERMISSIVE
    assert decision.outcome is Outcome.ADMITTED
    assert (decision.tokens, decision.controller_throttle_ms) == (-70, 14_000)
    assert bucket == Bucket(-70, 0, Quota(5))


@pytest.mark.parametrize("api_version", [STRICT, PERMISSIVE])
def test_validate_only_is_never_charged_nor_refused_nor_throttled(api_version):
    before = Bucket(-60, 0, Quota(5))
    bucket, (decision,) = decide_all(resolved(80, at=2000, api_version=api_version, validate_only=True), bucket=before)
    assert bucket == before
    assert decision.outcome is Outcome.ADMITTED
    assert (decision.tokens_before, decision.tokens, decision.throttle_time_ms) == (-50, -50, 0)


def test_validate_only_leaves_a_bucket_unseen():
    bucket, _ = decide_all(resolved(80, validate_only=True))
    assert bucket is None


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
    refused = resolved(1, at=100, request_throttle_ms=request_throttle, purgatory_ms=purgatory)
    _, (decision,) = decide_all(refused, bucket=Bucket(-60, 100, Quota(5)))
    assert decision.controller_throttle_ms == 12_000
    assert (decision.throttle_time_ms, decision.retry_at) == (throttle, 100 + throttle)


def test_a_refused_request_leaves_the_bucket_unchanged_but_reports_its_current_tokens():
    before = Bucket(-60, 0, Quota(5))
    bucket, (decision,) = decide_all(resolved(1, at=3000), bucket=before)
    assert bucket == before
    assert (decision.tokens_before, decision.tokens) == (-45, -45)


def test_a_refused_request_at_a_new_rate_is_stored():
    """Or the next change would take the time at this rate for time at the one before it."""
    bucket, _ = decide_all(resolved(1, at=3000, rate=10.0, since=2000), bucket=Bucket(-60, 0, Quota(5)))
    assert bucket == Bucket(-40, 3000, Quota(10))


def test_a_step_back_in_time_charges_but_neither_gains_nor_turns_the_clock_back():
    bucket, (decision,) = decide_all(resolved(10, at=500), bucket=Bucket(100, 1000, Quota(5)))
    assert decision.tokens == 90
    assert bucket == Bucket(90, 1000, Quota(5))


def test_requests_of_one_bucket_go_by_time_then_partition_then_offset():
    late, early = resolved(1, at=9, partition=0, offset=0), resolved(1, at=3, partition=1, offset=7)
    tie = resolved(1, at=9, partition=1, offset=8)
    assert sort([tie, late, early]) == [early, late, tie]


def test_a_partitions_own_order_is_kept_even_if_its_clock_stepped_back():
    first, second = resolved(1, at=9, offset=1), resolved(1, at=3, offset=2)
    assert sort([second, first]) == [first, second]


requests = st.lists(
    st.builds(
        resolved,
        st.integers(0, 300),
        st.integers(0, 300),
        at=st.integers(0, 100_000),
        api_version=st.sampled_from([STRICT, PERMISSIVE]),
    ),
    min_size=1,
    max_size=30,
)


@given(requests, st.data())
def test_one_partitions_requests_are_decided_equally_in_any_batches(unnumbered, data):
    numbered = [
        resolved(
            *[topic.partitions for topic in each.request.topics],
            at=each.record.timestamp,
            offset=offset,
            api_version=each.request.api_version,
        )
        for offset, each in enumerate(unnumbered)
    ]
    _, whole = decide(None, sort(data.draw(st.permutations(numbered))), KIP)
    cut = data.draw(st.integers(0, len(numbered)))
    bucket, first = decide(None, sort(numbered[:cut]), KIP)
    _, second = decide(bucket, sort(numbered[cut:]), KIP)
    assert whole == [*first, *second]


@given(
    st.floats(min_value=1e-3, max_value=1e6),
    st.integers(1, 10**6),
    st.integers(0, 4 * 10**12),
    st.lists(st.integers(0, 10**6), max_size=5),
)
def test_after_the_throttle_time_a_request_is_always_admitted(rate, debt, now, tries):
    """Refusals in between, at any rate and any time, do not change that."""
    bucket = Bucket(-float(debt), now, Quota(rate))
    for later in itertools.accumulate(tries, initial=now):
        bucket, (refused,) = decide(bucket, [resolved(1, at=later, rate=rate)], KIP)
        if refused.outcome is Outcome.ADMITTED:
            return
    if refused.throttle_time_ms < MAX_THROTTLE_MS:
        _, (waited,) = decide(bucket, [resolved(1, at=refused.retry_at, rate=rate)], KIP)
        assert waited.outcome is Outcome.ADMITTED


@given(st.lists(st.integers(0, 11_999), max_size=20))
def test_refused_requests_change_nothing(times):
    """A debt of 60 at 5/s lasts for 12 s: refusals until then do not change the tokens at its end."""
    bucket, decisions = decide(Bucket(-60, 0, Quota(5)), [resolved(1, at=at) for at in sorted(times)], KIP)
    assert {each.outcome for each in decisions} <= {Outcome.REJECTED}
    assert bucket == Bucket(-60, 0, Quota(5))
    _, (after,) = decide(bucket, [resolved(1, at=12_000)], KIP)
    assert (after.outcome, after.tokens_before) == (Outcome.ADMITTED, 0)
