"""A request is packed for the stateful stage, and unpacked unchanged."""

import msgspec
import pytest

from jobs.enforce.packing import decode_bucket, encode_bucket, pack_request, unpack_requests
from quota.admission.policy import Policy
from quota.admission.resolve import resolve, restore
from quota.algorithms.deduplication import AdmittedRequest, AdmittedRequests, Deduplication
from quota.algorithms.token_bucket import Bucket
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota
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


def test_the_state_of_a_program_without_withdrawals_is_read_and_added_to():
    """It has no charges, and a program without them ignores those that are stored."""
    kept, rule = AdmittedRequests(), Deduplication(60_000)
    first, second = (AdmittedRequest(Source("t", 0, offset), 5, 1, 3.0, 9) for offset in (1, 2))
    kept.put(b"a" * 16, first, rule, is_new=True)
    *numbers, more = encode_bucket(Bucket(1.5, 5, Quota(5.0, 55.0), None, kept, ("t", 0)))
    fields = msgspec.msgpack.decode(more)
    older = msgspec.msgpack.encode({name: value for name, value in fields.items() if name != "charges"})
    bucket = decode_bucket((*numbers, older))
    bucket.admitted_requests.put(b"b" * 16, second, rule, is_new=True)
    again = decode_bucket(encode_bucket(bucket)).admitted_requests
    found = [again.find(letter * 16) for letter in (b"a", b"b")]
    assert found == [msgspec.structs.replace(first, charge=0.0, attempt=0), second]
