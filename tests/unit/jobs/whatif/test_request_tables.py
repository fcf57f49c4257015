"""The rows of a file's requests: the cluster's answers, or those that quotas would have given."""

from jobs.whatif.request_tables import as_answered, as_enforced
from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, Window
from tests.support.factories import record, request_json, timeline

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
