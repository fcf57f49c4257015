"""The options of a quota besides its rate, and resets of buckets; calculated by hand, run through `simulate`."""

import json

import pytest

from quota.admission.policy import Policy
from quota.algorithms.token_bucket import Bucket
from quota.records.decision import Decision
from quota.records.quota import Quota
from quota.whatif.simulation import read_quotas, simulate
from tests.support.factories import KIP, PERMISSIVE, decide_all, request_json, resolved


def answers(requests, *quotas, policy=Policy()):  # noqa: B008 it cannot be changed
    """Return the decisions for (timestamp, partitions, fields), as clients get them."""
    lines = [request_json(*sizes, timestamp=at, **fields) for at, sizes, fields in requests]
    timeline = read_quotas(json.dumps(quota).encode() for quota in quotas)
    found = list(simulate(lines, timeline, KIP, policy=policy))
    assert all(isinstance(each, Decision) for each in found)
    return found


def alice(rate=5, **options):
    return {"entity": {"user": "alice"}, "controller_mutation_rate": rate} | options


def outcomes(decisions):
    return [(each.outcome.value, each.tokens, each.throttle_time_ms) for each in decisions]


def test_a_burst_of_a_quota_replaces_that_of_the_windows():
    """100 instead of 500: 80 and 80 leave -60, which 5/s pays in 12 s."""
    found = answers([(0, [80, 80, 80], {})], alice(controller_mutation_burst=100))
    assert outcomes(found) == [("PARTIAL", -60, 12_000)]
    assert found[0].burst == 100


def test_a_lowered_burst_takes_effect_at_its_timestamp():
    """Full with 500, at most 10 from 1000 on: 4 leaves 6, and 2 s later it is full with 10 again."""
    found = answers(
        [(0, [0], {}), (1000, [4], {}), (3000, [1], {})],
        alice(),
        alice(controller_mutation_burst=10, effective_at=1000),
    )
    assert outcomes(found) == [("ADMITTED", 500, 0), ("ADMITTED", 6, 0), ("ADMITTED", 9, 0)]


def test_a_raised_burst_is_not_retroactive():
    """The burst is 10 until 1000; from then on it is refilled at 5/s."""
    found = answers(
        [(0, [0], {}), (3000, [0], {})],
        alice(controller_mutation_burst=10),
        alice(controller_mutation_burst=400, effective_at=1000),
    )
    assert [each.tokens for each in found] == [10, 20]


def test_debt_is_bounded_by_the_quotas_option():
    """10,500 from a bucket of 500 would be 2,000 s of debt; a minute of it is 300."""
    found = answers(
        [(0, [10_500], {}), (0, [1], {}), (59_999, [1], {}), (60_000, [1], {})],
        alice(max_debt_ms=60_000),
    )
    assert [(each.outcome.value, each.throttle_time_ms) for each in found] == [
        ("ADMITTED", 0),
        ("REJECTED", 60_000),
        ("REJECTED", 1),
        ("ADMITTED", 0),
    ]
    assert found[0].tokens == -300


def test_a_bound_on_debt_set_later_forgives_the_excess_at_its_timestamp():
    """-10,000 at 0; the bound of 300 from 10 s: zero again at 70 s, with any refusals in between."""
    requests = [(0, [10_500], {}), *[(at, [1], {}) for at in (9_000, 10_000, 20_000, 69_999, 70_000)]]
    found = answers(requests, alice(), alice(max_debt_ms=60_000, effective_at=10_000))
    assert [each.throttle_time_ms for each in found] == [0, 1_991_000, 60_000, 50_000, 1, 0]
    assert found[-1].outcome.value == "ADMITTED"


def test_old_clients_debt_is_bounded_too():
    found = answers([(0, [10_500], {"api_version": PERMISSIVE})], alice(max_debt_ms=60_000))
    assert outcomes(found) == [("ADMITTED", -300, 60_000)]


def test_a_reset_bucket_is_as_if_never_seen():
    """-10,000 at 0; reset at 5 s: full with 500."""
    requests = [(0, [10_500], {}), (4_999, [1], {}), (5_000, [1], {})]
    found = answers(requests, alice(), {"bucket": {"user": "alice"}, "effective_at": 5_000})
    assert outcomes(found) == [("ADMITTED", -10_000, 0), ("REJECTED", -9_975.005, 1_995_001), ("ADMITTED", 499, 0)]


def test_a_reset_works_once():
    requests = [(0, [560], {}), (5_000, [560], {}), (5_000, [1], {})]
    found = answers(requests, alice(), {"bucket": {"user": "alice"}, "effective_at": 5_000})
    assert outcomes(found)[1:] == [("ADMITTED", -60, 0), ("REJECTED", -60, 12_000)]


@pytest.mark.parametrize(
    ("tags", "reset"),
    [
        ({"user": "alice"}, True),
        ({"client-id": "app"}, True),
        ({"user": "alice", "client-id": "app"}, True),
        ({"user": "bob"}, False),
        ({"user": "alice", "client-id": "other"}, False),
        ({"group": "alice"}, False),
    ],
)
def test_a_reset_applies_to_the_buckets_with_its_tags(tags, reset):
    quota = {"entity": {"user": "alice", "client-id": "app"}, "controller_mutation_rate": 5}
    app = {"client_id": "app"}
    found = answers([(0, [560], app), (1, [1], app)], quota, {"bucket": tags, "effective_at": 1})
    assert (found[1].outcome.value == "ADMITTED") is reset


def test_a_late_request_does_not_undo_a_reset():
    """Reset at 100; a request of another partition, stamped 50 and decided later, finds the bucket unchanged."""
    bucket, _ = decide_all(resolved(5, at=100, reset_at=100), bucket=Bucket(-60, 0, Quota(5)))
    assert bucket == Bucket(495, 100, Quota(5), reset_at=100)
    bucket, _ = decide_all(resolved(5, at=50), bucket=bucket)
    assert bucket == Bucket(490, 100, Quota(5), reset_at=100)
    bucket, _ = decide_all(resolved(5, at=101, reset_at=100), bucket=bucket)
    assert bucket.tokens == pytest.approx(485.005)


def test_a_reset_with_an_earlier_timestamp_than_the_bucket_still_works():
    """The bucket was written at 1000, by another broker's clock."""
    bucket, _ = decide_all(resolved(5, at=990, reset_at=980), bucket=Bucket(-60, 1000, Quota(5)))
    assert bucket == Bucket(495, 990, Quota(5), reset_at=980)


def test_validate_only_resets_nothing_but_reports_the_reset():
    before = Bucket(-60, 0, Quota(5))
    bucket, (decision,) = decide_all(resolved(5, at=100, reset_at=100, validate_only=True), bucket=before)
    assert (bucket, decision.tokens) == (before, 500)


@pytest.mark.parametrize("where", ["quota", "settings"])
def test_a_quota_in_shadow_admits_and_reports_what_it_would_have_done(where):
    """Seven of 80 overdraw 500 to -60; the eighth would be refused, and would leave the bucket unchanged."""
    quota = alice(shadow=True) if where == "quota" else alice()
    requests = [(0, [80] * 7, {}), (0, [80, 80], {"request_throttle_ms": 3, "purgatory_ms": 2000})]
    _, found = answers(requests, quota, policy=Policy(shadow=where == "settings"))
    assert (found.outcome.value, found.throttle_time_ms, found.controller_throttle_ms, found.retry_at) == (
        "ADMITTED",
        3,
        0,
        3,
    )
    assert {topic.error_code for topic in found.topics} == {0}
    shadow = found.shadow
    assert (shadow.outcome.value, shadow.error_codes, shadow.controller_throttle_ms, shadow.throttle_time_ms) == (
        "REJECTED",
        [89, 89],
        12_000,
        10_000,
    )
    assert (found.tokens_before, found.tokens) == (-60, -60)


def test_a_client_without_a_quota_has_no_shadow():
    (found,) = answers([(0, [1], {})], policy=Policy(shadow=True))
    assert (found.outcome.value, found.shadow, found.quota) == ("ADMITTED", None, None)


def test_the_end_of_shadow_forgives_nothing():
    found = answers([(0, [560], {}), (1000, [1], {})], alice(shadow=True), alice(effective_at=1000))
    assert outcomes(found) == [("ADMITTED", -60, 0), ("REJECTED", -55, 11_000)]
    assert found[1].shadow is None


def test_an_exempt_user_touches_no_bucket_and_the_decision_says_so():
    policy = Policy(exempt_users=frozenset({"alice"}))
    found = answers([(0, [560], {"request_throttle_ms": 4}), (0, [1], {"user": "bob"})], alice(), policy=policy)
    assert [(each.exempt, each.quota, each.tokens, each.throttle_time_ms) for each in found] == [
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
