"""The options of a quota besides its rate, and resets of buckets; calculated by hand, run through `simulate`."""

import json

import pytest

from quota.admission.policy import Policy
from quota.algorithms.token_bucket import Bucket
from quota.records.decision import Decision
from quota.records.quota_log import Quota
from quota.whatif.simulation import read_quotas, simulate
from tests.support.factories import KIP, decide_all, request_json, resolved, written


def answers(requests, *quotas, policy=Policy()):  # noqa: B008 it cannot be changed
    """Return the decisions for (timestamp, partitions, fields), as clients get them."""
    lines = [request_json(*sizes, timestamp=at, **fields) for at, sizes, fields in requests]
    timeline = read_quotas(json.dumps(quota).encode() for quota in quotas)
    decisions = list(simulate(lines, timeline, KIP, policy=policy))
    assert all(isinstance(decision, Decision) for decision in decisions)
    return decisions


def alice(rate=5, **options):
    return {"entity": {"user": "alice"}, "controller_mutation_rate": rate} | options


def outcomes(decisions):
    return [(decision.outcome.value, decision.tokens, decision.throttle_time_ms) for decision in decisions]


RESET = {"bucket": {"user": "alice"}, "effective_at": 5_000}
STEPS = {
    # 100 instead of 500: 80 and 80 leave -60, which 5/s pays in 12 s.
    "a burst of a quota replaces that of the windows": (
        [alice(controller_mutation_burst=100)],
        [(0, [80, 80, 80], "PARTIAL", -60, 12_000)],
    ),
    # Full with 500, at most 10 from 1000 on: 4 leaves 6, and 2 s later it is full with 10 again.
    "a lowered burst takes effect at its timestamp": (
        [alice(), alice(controller_mutation_burst=10, effective_at=1000)],
        [(0, [0], "ADMITTED", 500, 0), (1000, [4], "ADMITTED", 6, 0), (3000, [1], "ADMITTED", 9, 0)],
    ),
    # The burst is 10 until 1000; from then on it is refilled at 5/s.
    "a raised burst is not retroactive": (
        [alice(controller_mutation_burst=10), alice(controller_mutation_burst=400, effective_at=1000)],
        [(0, [0], "ADMITTED", 10, 0), (3000, [0], "ADMITTED", 20, 0)],
    ),
    # 10,500 from a bucket of 500 would be 2,000 s of debt; a minute of it is 300.
    "debt is bounded by the quota's option": (
        [alice(max_debt_ms=60_000)],
        [
            (0, [10_500], "ADMITTED", -300, 0),
            (0, [1], "REJECTED", -300, 60_000),
            (59_999, [1], "REJECTED", pytest.approx(-0.005), 1),
            (60_000, [1], "ADMITTED", -1, 0),
        ],
    ),
    # The bound of 300 from 10 s on: zero again at 70 s, with any rejections in between.
    "a bound on debt set later forgives the excess at its timestamp": (
        [alice(), alice(max_debt_ms=60_000, effective_at=10_000)],
        [
            (0, [10_500], "ADMITTED", -10_000, 0),
            (9_000, [1], "REJECTED", -9_955, 1_991_000),
            (10_000, [1], "REJECTED", -300, 60_000),
            (20_000, [1], "REJECTED", -250, 50_000),
            (69_999, [1], "REJECTED", pytest.approx(-0.005), 1),
            (70_000, [1], "ADMITTED", -1, 0),
        ],
    ),
    "a reset bucket is as if never seen": (
        [alice(), RESET],
        [
            (0, [10_500], "ADMITTED", -10_000, 0),
            (4_999, [1], "REJECTED", -9_975.005, 1_995_001),
            (5_000, [1], "ADMITTED", 499, 0),
        ],
    ),
    "a reset works once": (
        [alice(), RESET],
        [(0, [560], "ADMITTED", -60, 0), (5_000, [560], "ADMITTED", -60, 0), (5_000, [1], "REJECTED", -60, 12_000)],
    ),
    "the end of shadow forgives nothing": (
        [alice(shadow=True), alice(effective_at=1000)],
        [(0, [560], "ADMITTED", -60, 0), (1000, [1], "REJECTED", -55, 11_000)],
    ),
}
"""The records of the quota log, and requests: their times, costs, and the outcome, tokens and throttle time of each."""


@pytest.mark.parametrize("name", STEPS)
def test_the_options_of_a_quota_step_by_step(name):
    quotas, steps = STEPS[name]
    decisions = answers([(at, sizes, {}) for at, sizes, *_ in steps], *quotas)
    assert outcomes(decisions) == [(outcome, tokens, throttle) for _, _, outcome, tokens, throttle in steps]


@pytest.mark.parametrize(
    ("tags", "reset"),
    [
        ({"user": "alice"}, True),
        ({"client-id": "app"}, True),
        ({"user": "bob"}, False),
        ({"user": "alice", "client-id": "other"}, False),
    ],
)
def test_a_reset_applies_to_the_buckets_with_its_tags(tags, reset):
    quota = {"entity": {"user": "alice", "client-id": "app"}, "controller_mutation_rate": 5}
    app = {"client_id": "app"}
    decisions = answers([(0, [560], app), (1, [1], app)], quota, {"bucket": tags, "effective_at": 1})
    assert (decisions[1].outcome.value == "ADMITTED") is reset


def test_a_late_request_does_not_undo_a_reset():
    """Reset at 100; a request of another partition, stamped 50 and decided later, finds the bucket unchanged."""
    bucket, _ = decide_all(resolved(5, at=100, reset_at=100), bucket=Bucket(-60, 0, Quota(5)))
    assert bucket == written(495, 100, Quota(5), reset_at=100)
    bucket, _ = decide_all(resolved(5, at=50, partition=1), bucket=bucket)
    assert bucket == written(490, 100, Quota(5), reset_at=100)
    bucket, _ = decide_all(resolved(5, at=101, reset_at=100), bucket=bucket)
    assert bucket.tokens == pytest.approx(485.005)


def test_a_reset_with_an_earlier_timestamp_than_the_bucket_still_works():
    """The bucket was written at 1000, by another broker's clock."""
    bucket, _ = decide_all(resolved(5, at=990, reset_at=980), bucket=Bucket(-60, 1000, Quota(5)))
    assert bucket == written(495, 990, Quota(5), reset_at=980)


def test_validate_only_resets_nothing_but_reports_the_reset():
    before = Bucket(-60, 0, Quota(5))
    bucket, (decision,) = decide_all(resolved(5, at=100, reset_at=100, validate_only=True), bucket=before)
    assert (bucket, decision.tokens) == (before, 500)


@pytest.mark.parametrize("where", ["quota", "settings"])
def test_a_quota_in_shadow_admits_and_reports_what_it_would_have_done(where):
    """Seven of 80 overdraw 500 to -60; the eighth would be rejected, and would leave the bucket unchanged."""
    quota = alice(shadow=True) if where == "quota" else alice()
    requests = [(0, [80] * 7, {}), (0, [80, 80], {"request_throttle_ms": 3, "purgatory_ms": 2000})]
    _, decision = answers(requests, quota, policy=Policy(shadow=where == "settings"))
    assert (decision.outcome.value, decision.throttle_time_ms, decision.controller_throttle_ms, decision.retry_at) == (
        "ADMITTED",
        3,
        0,
        3,
    )
    assert {topic.error_code for topic in decision.topics} == {0}
    shadow = decision.shadow
    assert (shadow.outcome.value, shadow.error_codes, shadow.controller_throttle_ms, shadow.throttle_time_ms) == (
        "REJECTED",
        [89, 89],
        12_000,
        10_000,
    )
    assert (decision.tokens_before, decision.tokens) == (-60, -60)


def test_an_exempt_user_touches_no_bucket_and_the_decision_says_so():
    policy = Policy(exempt_users=frozenset({"alice"}))
    decisions = answers([(0, [560], {"request_throttle_ms": 4}), (0, [1], {"user": "bob"})], alice(), policy=policy)
    assert [(answer.exempt, answer.quota, answer.tokens, answer.throttle_time_ms) for answer in decisions] == [
        (True, None, None, 4),
        (False, None, None, 0),
    ]


def test_a_late_request_under_an_older_quota_takes_nothing_from_the_bucket():
    """Stamped 90 and decided after 110: its burst of 10 and its bound of 5 do not apply to the bucket."""
    for held, after in ((400, 399), (-1000, -1000)):
        bucket, (decision,) = decide_all(
            resolved(1, at=90, burst=10.0, max_debt_ms=1000), bucket=Bucket(held, 110, Quota(5))
        )
        assert (bucket, decision.tokens_before) == (Bucket(after, 110, Quota(5)), held)
