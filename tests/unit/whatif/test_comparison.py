"""A cluster's answers compared with the project's decisions: the differences, and the rules of Kafka behind them.

Alice has 1 mutation a second and a burst of 11. The cluster's answers are calculated by hand.
"""

import json

import pytest

from quota.admission.policy import Policy
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota, Window
from quota.records.record import Record, Source
from quota.timeline.change import QuotaChange
from quota.whatif.comparison import ASSUMED, OTHER_QUOTA, UNEXPLAINED, Comparer
from quota.whatif.kafka_bucket import KafkaDifference
from tests.support.checkout import CHECKOUT

HOUR = 3_600_000
ALICE = QuotaEntity("alice")


def request(at, *topics, wait=0, took=0, **fields):
    """Return an observed request; each topic is its cost, negative if the cluster refused it."""
    observed = {
        "at": at,
        "error_codes": [89 if each < 0 else 0 for each in topics],
        "throttle_time_ms": wait,
        "took_ms": took,
        "assumed": fields.pop("assumed", []),
    }
    named = [{"name": f"t-{number}", "partitions": abs(each)} for number, each in enumerate(topics)]
    own = {"request_id": f"r-{at}", "user": "alice", "client_id": "app", "operation": "CREATE_TOPICS", "api_version": 7}
    return json.dumps(own | {"topics": named, "observed": observed} | fields).encode()


def compare(*requests, quotas=((ALICE, Quota(1.0), 0),), policy=Policy()):  # noqa: B008 it cannot be changed
    timeline = CallbackTimeline()
    for entity, quota, since in quotas:
        timeline.add(QuotaChange(entity, quota, since))
    comparer = Comparer(timeline, policy, TokenBucket(Window()))
    for number, value in enumerate(requests):
        assert comparer.compare(Record(Source("t", 0, number), 10 * HOUR, value)) is None
    return comparer.found


def causes(*requests, **options):
    return [difference.causes for difference in compare(*requests, **options).shown]


def test_equal_answers_agree_whether_admitted_or_refused():
    found = compare(request(0, 5, 10), request(0, -1, wait=4000), request(4000, 1), request(4001, 1, -1, wait=999))
    assert (found.requests, found.limited, found.agreeing, found.refused_by_both) == (4, 4, 3, 1)
    assert found.shown[0].our_error_codes == [89, 89]  # at 4,001 the bucket is 999 ms in debt


def test_the_cluster_may_decide_at_any_time_while_it_handles_a_request():
    assert not causes(request(0, 15), request(3900, 1, took=200))
    assert not causes(request(0, 15), request(1000, -1, wait=2950, took=100))
    assert causes(request(0, 15), request(1000, -1, wait=2750, took=100)) == [[UNEXPLAINED]]


def test_a_client_gets_the_throttle_time_remaining_at_the_response():
    """Kafka takes off what has passed since the decision (KIP-599)."""
    assert not causes(request(0, 15, -1, wait=3970, took=30))
    assert causes(request(0, 15, -1, wait=3960, took=30)) == [[UNEXPLAINED]]


def test_a_bucket_may_have_been_charged_later_than_its_request_was_received():
    """The debt of 4 began up to 30 ms after 0, and is that much longer."""
    assert not causes(request(0, 15, took=30), request(1000, -1, wait=3030))
    assert causes(request(0, 15, took=30), request(1000, -1, wait=3040)) == [[UNEXPLAINED]]


def test_topics_of_one_request_may_be_charged_in_another_order():
    assert causes(request(0, -5, 12, -3)) == [[KafkaDifference.ORDER.value]]


def test_a_new_controller_forgets_debts_and_is_reported_once():
    assert causes(request(0, 60), request(1000, 1), request(1001, 1)) == [[KafkaDifference.STATE.value]]


def test_requests_that_only_validate_are_charged_by_kafka():
    """Here a validation costs nothing, so that the debt at 1,000 is the cluster's alone."""
    only = request(0, 15, validate_only=True)
    assert causes(only, request(1000, -1, wait=3000)) == [[KafkaDifference.VALIDATE_ONLY.value]]
    assert causes(request(0, 15), request(0, -1, wait=4000, validate_only=True)) == [
        [KafkaDifference.VALIDATE_ONLY.value]
    ]


def test_kafka_forgets_a_debt_an_hour_after_the_last_charge():
    assert causes(request(0, 10_000), request(HOUR, 1), request(HOUR, 12)) == [[KafkaDifference.EXPIRED.value]] * 2


def test_a_raised_quota_is_retroactive_in_kafka():
    """-49 after the first; Kafka adds 10 s of 10/s, we add 9 s of 1/s and one of 10/s: -30."""
    quotas = ((ALICE, Quota(1.0), 0), (ALICE, Quota(10.0), 9000))
    assert causes(request(0, 60), request(10_000, 1), quotas=quotas) == [[KafkaDifference.QUOTA_CHANGED.value]]


def test_a_quota_that_was_removed_and_set_again_has_a_full_bucket_in_kafka():
    quotas = ((ALICE, Quota(1.0), 0), (ALICE, None, 1000), (ALICE, Quota(1.0), 3000))
    found = compare(request(0, 60), request(2000, 500), request(3000, 1), quotas=quotas)
    assert (found.limited, [each.causes for each in found.shown]) == (2, [[KafkaDifference.QUOTA_REMOVED.value]])


def test_kafka_has_no_burst_or_bound_on_debt_per_quota():
    large = ((ALICE, Quota(1.0, burst=100.0), 0),)
    assert causes(request(0, 60), request(0, -1, wait=49_000), quotas=large) == [[KafkaDifference.BURST.value]]
    bounded = ((ALICE, Quota(1.0, max_debt_ms=1000), 0),)
    assert causes(request(0, 60), request(5000, -1, wait=44_000), quotas=bounded) == [[KafkaDifference.DEBT.value]]


def test_kafka_has_no_exempt_users_and_no_default_for_clients_without_an_id():
    exempt = Policy(exempt_users=frozenset({"alice"}))
    assert causes(request(0, 60), request(0, -1, wait=49_000), policy=exempt) == [[KafkaDifference.EXEMPT.value]]
    default = ((QuotaEntity(client_id=None), Quota(1.0), 0),)
    sent = [request(0, 60, client_id=""), request(0, 1, client_id="")]
    assert causes(*sent, quotas=default) == [[KafkaDifference.NO_CLIENT_ID.value]]


def test_an_assumed_cost_is_not_a_difference_of_rules():
    assert causes(request(0, 15), request(1000, 1, assumed=[0])) == [[ASSUMED]]


def test_a_refusal_despite_a_full_bucket_indicates_a_different_quota():
    assert causes(request(0, 12, 12)) == [[OTHER_QUOTA]]


def test_a_cluster_that_forgets_debts_repeatedly_has_a_different_quota():
    found = compare(*[request(number * 1000, 10) for number in range(50)])
    assert found.causes[KafkaDifference.STATE.value] == 1
    assert found.causes[OTHER_QUOTA] == found.differing - 1 > 10


def test_both_buckets_are_charged_what_the_cluster_admitted_so_that_one_difference_counts_once():
    """The cluster has forgotten a debt, and admits 20 of 11; both are at -9 after it."""
    assert causes(request(0, 15), request(1000, 20), request(1000, -1, wait=9000)) == [[KafkaDifference.STATE.value]]


def test_requests_without_a_quota_or_without_an_answer_do_not_count():
    unasked = json.loads(request(0, 5)) | {"observed": None}
    del unasked["observed"]
    found = compare(request(0, 5, user="bob"), json.dumps(unasked).encode())
    assert (found.requests, found.limited) == (1, 0)


@pytest.mark.parametrize("difference", KafkaDifference)
def test_each_cause_is_a_row_of_the_page(difference):
    page = (CHECKOUT / "docs/explanation/differences-from-kafka.md").read_text()
    assert f"\n| {difference.value} | " in page
