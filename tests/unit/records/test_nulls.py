"""An optional field that is null counts as absent, in requests and in records of the quota log."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadRecord
from quota.records import codec
from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import Window
from quota.records.quota_log import (
    CallbackRecord,
    Cluster,
    ClusterRecord,
    QuotaRecord,
    ResetRecord,
    read_quota_log_record,
)
from quota.records.request import read_request
from tests.support.factories import request_json, resolved

REQUEST = {
    "user": "alice",
    "client_id": "app",
    "validate_only": True,
    "request_throttle_ms": 7,
    "purgatory_ms": 3,
    "apply": False,
    "expires_at": 9,
}
"""A value for each optional field of a request except `observed`."""
TOPIC = {"count": 3, "replication_factor": 2, "assignments": [[0, 1]], "configs": {"a": "b"}}
"""A value for each optional field of a topic of a request."""
OBSERVED = {"throttle_time_ms": 5, "took_ms": 6, "assumed": [0]}
"""A value for each optional field of what was observed."""


@given(
    st.fixed_dictionaries({}, optional={name: st.sampled_from([None, value]) for name, value in REQUEST.items()}),
    st.lists(
        st.fixed_dictionaries({}, optional={name: st.sampled_from([None, value]) for name, value in TOPIC.items()}),
        min_size=1,
        max_size=3,
    ),
    st.fixed_dictionaries({}, optional={name: st.sampled_from([None, value]) for name, value in OBSERVED.items()}),
)
def test_any_nulls_together_count_as_absent(fields, topics, observed):
    def request(keep):
        kept = {name: value for name, value in fields.items() if keep(value)}
        return json.dumps(
            {
                "request_id": "r",
                "operation": "CREATE_TOPICS",
                "api_version": 6,
                "topics": [
                    {"name": "t", "partitions": 1, **{name: value for name, value in each.items() if keep(value)}}
                    for each in topics
                ],
                "observed": {
                    "at": 1,
                    "error_codes": [0],
                    **{name: value for name, value in observed.items() if keep(value)},
                },
                **kept,
            }
        ).encode()

    assert read_request(request(lambda _: True)) == read_request(request(lambda value: value is not None))


def request_with(topic=(), **fields):
    return request_json(topics=[{"name": "t", "partitions": 1} | dict(topic)], **fields)


@pytest.mark.parametrize(
    ("request_bytes", "error"),
    [
        (request_with(client_id=None, request_id=None), "request_id: expected .*, got null"),
        (request_with({"configs": None, "partitions": None}), r"topics\[0\]\.partitions: expected .*, got null"),
        (request_with({"assignments": [[None]]}), ".*got null"),
        (request_with({"configs": {"a": None}}), ".*got null"),
        (request_with(client_id=None, api_version="6"), "api_version: expected int, got str"),
    ],
)
def test_a_null_without_a_meaning_is_an_error_with_its_field(request_bytes, error):
    with pytest.raises(BadRecord, match=f"^{error}"):
        read_request(request_bytes)


@pytest.mark.parametrize("fields", [{}, {"client_id": None, "validate_only": None}])
def test_an_empty_request_id_is_an_error_that_says_so(fields):
    with pytest.raises(BadRecord) as raised:
        read_request(request_json(1, request_id="", **fields))
    assert str(raised.value) == 'request_id: expected str of length >= 1 (value: "")'


def test_a_decision_omits_details_that_were_null_in_its_request():
    request = resolved(topics=[{"name": "t", "partitions": 1, "count": None, "configs": {"a": "b"}}])
    _, (decision,) = decide(None, [request], TokenBucket(Window()))
    (topic,) = json.loads(codec.encode(decision))["topics"]
    assert topic == {
        "configs": {"a": "b"},
        "name": "t",
        "partitions": 1,
        "error_code": 0,
        "error": "NONE",
        "error_message": None,
    }


ALICE = QuotaEntity("alice")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            {
                "entity": {"user": "alice"},
                "controller_mutation_rate": 5,
                "controller_mutation_burst": None,
                "max_debt_ms": None,
                "shadow": None,
                "effective_at": None,
                "altered_by": None,
                "comment": None,
                "altered_configs": None,
                "cancelled": None,
            },
            QuotaRecord(ALICE, 5.0),
        ),
        (
            {
                "entity": {"user": "alice"},
                "controller_mutation_rate": 5,
                "bucket": None,
                "callback": None,
                "cluster": None,
            },
            QuotaRecord(ALICE, 5.0),
        ),
        ({"entity": None, "bucket": {"user": "alice"}, "callback": None}, ResetRecord({"user": "alice"})),
        (
            {"entity": None, "callback": {"class": "a.B", "configs": None}, "cancelled": None},
            CallbackRecord(CallbackSetting("a.B")),
        ),
        ({"entity": None, "bucket": None, "callback": None, "cluster": None}, CallbackRecord(None)),
        ({"callback": None, "cluster": {"topics": {"t": [None]}}}, ClusterRecord(Cluster({"t": [None]}))),
    ],
)
def test_null_in_a_record_of_the_quota_log_counts_as_absent(written, expected):
    assert read_quota_log_record(json.dumps(written).encode()) == expected


def test_null_keeps_its_meaning_where_it_has_one():
    """A part of an entity that is null is the default, and a rate that is null removes the quota."""
    written = b'{"entity": {"user": null, "client-id": null}, "controller_mutation_rate": null, "shadow": null}'
    assert read_quota_log_record(written) == QuotaRecord(QuotaEntity(None, None), None)


def test_a_record_with_an_entity_that_is_null_has_none():
    with pytest.raises(BadRecord, match=r"^entity: "):
        read_quota_log_record(b'{"entity": null, "controller_mutation_rate": 5}')
