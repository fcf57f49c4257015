"""An audited decision, restored to the request that was decided, and compared with other answers."""

import pytest

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, Window
from quota.whatif.recorded import as_answered, as_enforced, resolved_to
from tests.support.factories import PERMISSIVE, record, request_json, resolved, timeline

BY = TokenBucket(Window(num=100))  # B = 500 at 5/s


def decided(*requests, by=BY):
    return decide(None, requests, by)[1]


def recorded(request, *before, by=BY):
    return decided(*before, request, by=by)[-1]


@pytest.mark.parametrize(
    "request_",
    [
        resolved(80, 90, at=7),
        resolved(80, api_version=PERMISSIVE),
        resolved(3, operation="DELETE_TOPICS", api_version=5),
        resolved(80, rate=None, request_throttle_ms=12),
        resolved(80, validate_only=True),
        resolved(80, exempt=True, rate=None),
        resolved(80, user="bob", client_id="app"),
        resolved(80, apply=False, expires_at=9),
    ],
)
def test_a_restored_request_is_decided_as_it_was(request_):
    before = resolved(560)  # K = -60
    kept = recorded(request_, before)
    assert recorded(resolved_to(kept, request_.resolution), before) == kept


@pytest.mark.parametrize(
    ("purgatory_ms", "request_throttle_ms", "expected_ms"),
    [(0, 0, 12_000), (5_000, 0, 7_000), (20_000, 0, 0), (5_000, 9_000, 9_000), (0, 20_000, 20_000)],
)
def test_a_time_in_purgatory_that_was_not_stored_is_inferred(purgatory_ms, request_throttle_ms, expected_ms):
    """K = -60 at 5/s: 12 s, less the stay, and not less than the request quota's own."""
    original = resolved(80, purgatory_ms=purgatory_ms, request_throttle_ms=request_throttle_ms)
    kept = recorded(original, resolved(560))
    assert kept.throttle_time_ms == expected_ms
    assert recorded(resolved_to(kept, original.resolution), resolved(560)).throttle_time_ms == expected_ms


def test_in_shadow_the_would_be_throttle_time_gives_the_time_in_purgatory():
    original = resolved(80, shadow=True, purgatory_ms=5_000)
    kept = recorded(original, resolved(560))
    assert (kept.throttle_time_ms, kept.shadow.throttle_time_ms) == (0, 7_000)
    assert recorded(resolved_to(kept, original.resolution), resolved(560)) == kept


def test_a_repeat_is_restored_as_one():
    remembering = TokenBucket(Window(num=100), Deduplication(window_ms=1000))
    first, again = resolved(80, offset=1), resolved(80, at=500, offset=2)
    kept = recorded(again, first, by=remembering)
    assert kept.repeats.decision_id == "mutation-requests-0-1"
    requests = [resolved_to(answered, again.resolution) for answered in decided(first, again, by=remembering)]
    assert recorded(requests[1], requests[0], by=remembering) == kept


OBSERVED = {"at": 0, "error_codes": [0, 89], "throttle_time_ms": 700}


def decision(*quotas, **fields):
    resolved = resolve(record(request_json(1, 2, client_id="app", **fields)), timeline(*quotas), Policy())
    _, (answer,) = decide(Bucket(-60.0, 0, Quota(5.0)), [resolved], TokenBucket(Window()))
    return answer


def test_the_clusters_answer_replaces_the_decision():
    answered = as_answered(decision(observed=OBSERVED))
    assert [(topic.error_code, topic.error) for topic in answered.topics] == [
        (0, "NONE"),
        (89, "THROTTLING_QUOTA_EXCEEDED"),
    ]
    assert (answered.outcome.value, answered.throttle_time_ms, answered.retry_at) == ("PARTIAL", 700, 700)


def test_without_a_quota_each_sender_is_separate():
    answered = as_answered(decision(observed=OBSERVED))
    assert (answered.user_tag, answered.client_tag) == ("alice", "app")


def test_a_request_that_was_not_observed_stays_admitted():
    answered = as_answered(decision())
    assert (answered.outcome.value, [topic.error_code for topic in answered.topics]) == ("ADMITTED", [0, 0])


def test_a_topic_rejected_in_shadow_is_rejected():
    enforced = as_enforced(decision((QuotaEntity("alice"), 5.0, 0), observed=OBSERVED))
    assert (enforced.outcome.value, [topic.error_code for topic in enforced.topics]) == ("REJECTED", [89, 89])
    assert (enforced.throttle_time_ms, enforced.shadow) == (12_000, None)
