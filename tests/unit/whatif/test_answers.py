"""Decisions with the cluster's answer, or with that of a quota in shadow."""

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota, Window
from quota.whatif.recorded import as_answered, as_enforced
from tests.support.factories import record, request_json, timeline

OBSERVED = {"at": 0, "error_codes": [0, 89], "throttle_time_ms": 700}


def decision(*quotas, **fields):
    resolved = resolve(record(request_json(1, 2, client_id="app", **fields)), timeline(*quotas), Policy())
    _, (found,) = decide(Bucket(-60.0, 0, Quota(5.0)), [resolved], TokenBucket(Window()))
    return found


def test_the_clusters_answer_replaces_the_decision():
    found = as_answered(decision(observed=OBSERVED))
    assert [(topic.error_code, topic.error) for topic in found.topics] == [
        (0, "NONE"),
        (89, "THROTTLING_QUOTA_EXCEEDED"),
    ]
    assert (found.outcome.value, found.throttle_time_ms, found.retry_at) == ("PARTIAL", 700, 700)


def test_without_a_quota_each_sender_is_separate():
    found = as_answered(decision(observed=OBSERVED))
    assert (found.user_tag, found.client_tag) == ("alice", "app")


def test_a_request_that_was_not_observed_stays_admitted():
    found = as_answered(decision())
    assert (found.outcome.value, [topic.error_code for topic in found.topics]) == ("ADMITTED", [0, 0])


def test_a_topic_refused_in_shadow_is_refused():
    found = as_enforced(decision((QuotaEntity("alice"), 5.0, 0), observed=OBSERVED))
    assert (found.outcome.value, [topic.error_code for topic in found.topics]) == ("REJECTED", [89, 89])
    assert (found.throttle_time_ms, found.shadow) == (12_000, None)
