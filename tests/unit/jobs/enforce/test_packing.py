"""A request is packed for the stateful stage, and unpacked unchanged."""

import pytest

from jobs.enforce.packing import pack_request, unpack_requests
from quota.admission.policy import Policy
from quota.admission.resolve import resolve, restore
from quota.records.entity import QuotaEntity
from quota.records.record import Record, Source
from tests.support.factories import request_json, timeline

QUOTAS = timeline((QuotaEntity("alice"), 5.0, 0))


def through_the_stage(value, policy, topic="requests", timestamp=1000):
    """Return a resolved record, and the same after packing and unpacking."""
    record = Record(Source(topic, 1, 7), timestamp, value, b"key")
    resolved = resolve(record, QUOTAS, policy)
    ((unpacked, found),) = unpack_requests([pack_request(record, resolved)["request"]])
    assert unpacked.key == record.key
    return resolved, restore(unpacked, found, policy)


@pytest.mark.parametrize(
    ("policy", "topic", "named"),
    [
        (Policy(), "requests", "alice"),
        (Policy(), "requests", "bob"),
        (Policy(exempt_users=frozenset({"alice"})), "requests", "alice"),
        (Policy(user_topic_prefix="requests"), "requests.alice", ""),
        (Policy(user_topic_prefix="requests"), "requests.alice", "alice"),
    ],
)
def test_a_resolved_request_is_unpacked_unchanged(policy, topic, named):
    """It has its user, from the payload or the topic, and its quota or none."""
    before, after = through_the_stage(request_json(3, 0, user=named, client_id=""), policy, topic)
    assert after == before
    assert after.request.user in {"alice", "bob"}


def test_an_observed_request_is_unpacked_with_the_time_as_of_which_it_is_decided():
    value = request_json(3, user="alice", observed={"at": 400, "error_codes": [89]})
    before, after = through_the_stage(value, Policy())
    assert after == before
    assert after.record.timestamp == 400


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{}", request_json(1, user="b" * 2000)])
def test_a_dead_letter_is_unpacked_unchanged(value):
    before, after = through_the_stage(value, Policy())
    assert after == before
    assert after.error
