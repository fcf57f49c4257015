"""The JSON Schemas of the records, of one mind with their readers, for which a null field is absent."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from quota.admission.policy import Policy
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadRecord
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    CallbackRecord,
    CallbackSetting,
    Cluster,
    ClusterRecord,
    QuotaRecord,
    ResetRecord,
    Window,
    read_quota_log_record,
)
from quota.records.request import read_request
from quota.records.result import TopicResult
from quota.whatif.simulation import read_quotas, simulate
from tests.support.checkout import CHECKOUT
from tests.support.factories import PERMISSIVE, request_json, result
from tests.support.factories import request_at as at

CLIENTS = CHECKOUT / "docs" / "how-to" / "clients.md"
READERS = {"request": read_request, "quota-log": read_quota_log_record}
ALICE = {"entity": {"user": "alice"}, "controller_mutation_rate": 5}
OPTIONS = ("controller_mutation_burst", "max_debt_ms", "shadow", "effective_at", "altered_by", "comment")
OPTIONS += ("altered_configs", "cancelled")


def schema_of(name):
    return json.loads((CHECKOUT / "schemas" / "json" / f"{name}.schema.json").read_text())


def validator(name):
    return Draft202012Validator(schema_of(name))


def problems(name, record):
    return [error.message for error in validator(name).iter_errors(json.loads(record))]


def test_the_example_of_a_request_is_one():
    block = re.search(r"A request is a JSON record:\n\n```json\n(.*?)```", CLIENTS.read_text(), re.DOTALL)[1]
    assert problems("request", block) == []


def test_the_results_of_deciding_match_the_schemas_of_decisions_and_dead_letters():
    """Decisions are strict, permissive, unlimited, in shadow, rejected and repeated, with all fields of a request."""
    details = [
        {
            "name": "t",
            "partitions": 60,
            "count": 3,
            "replication_factor": -1,
            "assignments": [[0, 1]],
            "configs": {"a": "b"},
        }
    ]
    lines = [
        at(0, 60, 60),
        at(0, 60, 60),
        at(1, 60),
        at(2, 60, api_version=PERMISSIVE),
        at(3, 1, user="nobody", expires_at=5, apply=False),
        at(4, 600, user="bob", client_id="app"),
        at(5, 1, user="bob", client_id="app"),
        at(6, user="alice", operation="CREATE_PARTITIONS", topics=details),
        b"no request",
        b"\xff",
    ]
    bob = {"entity": {"user": "bob", "client-id": None}, "controller_mutation_rate": 1, "shadow": True}
    quotas = read_quotas([json.dumps(quota).encode() for quota in (ALICE, bob)])
    policy = Policy(deduplication=Deduplication(window_ms=1000))
    answers = [
        codec.encode(answer)
        for answer in simulate(lines, quotas, TokenBucket(Window(), policy.deduplication), policy=policy)
    ]
    assert [problems("decision", answer) for answer in answers[:-2]] == [[]] * 8
    assert [problems("dead-letter", answer) for answer in answers[-2:]] == [[]] * 2
    assert all(problems("decision", answer) for answer in answers[-2:])
    shown = [json.loads(answer) for answer in answers[:-2]]
    assert [bool(decision["repeats"]) for decision in shown].count(True) == 1
    assert [bool(decision["shadow"]) for decision in shown].count(True) == 2


@pytest.mark.parametrize(
    "record",
    [
        QuotaRecord(QuotaEntity("alice"), 5.0),
        QuotaRecord(QuotaEntity(None, "app"), None, altered_by="ann", comment="gone"),
        QuotaRecord(QuotaEntity("a", None), 5.0, 9.0, 60_000, shadow=True, effective_at=7, altered_configs=["shadow"]),
        QuotaRecord(QuotaEntity("alice"), 5.0, effective_at=7, cancelled=True),
        ResetRecord({"user": "alice", "client-id": "app"}, comment="one huge deletion"),
        CallbackRecord(CallbackSetting("a.B", {"c": "d"}), altered_configs=["c"]),
        CallbackRecord(None),
        ClusterRecord(Cluster({"t": [0, None, 2]})),
    ],
)
def test_each_kind_of_the_quota_log_is_one_of_its_records(record):
    assert problems("quota-log", codec.encode(record)) == []


def test_the_outcome_of_a_mutation_matches_the_schema_of_results():
    topics = [TopicResult("t"), TopicResult("u", 36, "TOPIC_ALREADY_EXISTS", "Topic 'u' already exists.")]
    assert problems("result", codec.encode(result(topics=topics))) == []
    assert problems("result", codec.encode(result(topics=None)))


GOOD = {
    "request": [
        request_json(1),
        request_json(0, user="", client_id="", api_version=0),
        request_json(2**31 - 1, purgatory_ms=1, request_throttle_ms=2, validate_only=True),
        request_json(1, unknown={"field": 1}),
        request_json(1, expires_at=253_402_300_799_999),
        request_json(1, observed=None),
    ],
    "quota-log": [
        json.dumps(ALICE).encode(),
        json.dumps(ALICE | {"unknown": 1}).encode(),
        json.dumps({"entity": {"client-id": None}, "controller_mutation_rate": None}).encode(),
        json.dumps({"cluster": {"topics": {}}, "callback": None}).encode(),
    ],
}
BAD = {
    "request": [
        b"[]",
        b"{}",
        request_json(),
        request_json(-1),
        request_json(1, operation="ALTER_TOPICS"),
        request_json(1, api_version=-1),
        request_json(1, operation=None),
        request_json(1, request_id=None),
        request_json(1, request_id=""),
        request_json(1, purgatory_ms=-1),
        request_json(1, expires_at=253_402_300_800_000),
        request_json(1, topics=[{"name": "t"}]),
        request_json(1, topics=[{"name": "t", "partitions": None}]),
        request_json(1, topics=[{"name": "t", "partitions": 1, "configs": {"a": None}}]),
        request_json(1, topics=[{"name": "t", "partitions": 1, "configs": {"a": 1}}]),
        request_json(1, topics=[{"name": "t", "partitions": 1, "assignments": [[None]]}]),
        request_json(1, topics=[{"name": "t", "partitions": 1, "replication_factor": 40_000}]),
    ],
    "quota-log": [
        b"{}",
        *(
            json.dumps(record).encode()
            for record in (
                {"entity": {"user": "alice"}},
                ALICE | {"entity": {}},
                ALICE | {"entity": {"user": ""}},
                ALICE | {"entity": {"user": "alice", "group": "g"}},
                ALICE | {"controller_mutation_rate": 0},
                ALICE | {"controller_mutation_burst": -1},
                ALICE | {"max_debt_ms": 0},
                ALICE | {"shadow": "yes"},
                ALICE | {"effective_at": -1},
                {"entity": {"user": "alice"}, "bucket": {"user": "alice"}},
                {"bucket": {}},
                {"bucket": {"user": ""}},
                {"callback": {"configs": {}}},
                {"callback": {"class": "a.B", "configs": {"c": 1}}},
                {"cluster": {"topics": {"t": [-1]}}},
                {"cluster": {}, "callback": None},
                {"entity": None, "controller_mutation_rate": 5},
            )
        ),
    ],
}


@pytest.mark.parametrize(("name", "record"), [(name, record) for name, some in GOOD.items() for record in some])
def test_records_that_the_reader_accepts_are_valid(name, record):
    READERS[name](record)
    assert problems(name, record) == []


@pytest.mark.parametrize(("name", "record"), [(name, record) for name, some in BAD.items() for record in some])
def test_records_that_the_reader_rejects_are_invalid(name, record):
    with pytest.raises(BadRecord):
        READERS[name](record)
    assert problems(name, record)


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


def some(values):
    """Return a strategy of fields that are absent, null or have these values."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from([None, value]) for name, value in values.items()})


def without_nulls(given):
    return {name: value for name, value in given.items() if value is not None}


@given(some(REQUEST), st.lists(some(TOPIC), min_size=1, max_size=3), some(OBSERVED))
def test_any_nulls_together_count_as_absent(fields, topics, observed):
    def request(kept):
        needed = {"request_id": "r", "operation": "CREATE_TOPICS", "api_version": 6}
        needed["topics"] = [{"name": "t", "partitions": 1} | kept(topic) for topic in topics]
        needed["observed"] = {"at": 1, "error_codes": [0]} | kept(observed)
        return json.dumps(needed | kept(fields)).encode()

    assert read_request(request(dict)) == read_request(request(without_nulls))
    assert problems("request", request(dict)) == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (ALICE | dict.fromkeys(OPTIONS), QuotaRecord(QuotaEntity("alice"), 5.0)),
        (ALICE | dict.fromkeys(("bucket", "callback", "cluster")), QuotaRecord(QuotaEntity("alice"), 5.0)),
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
    record = json.dumps(written).encode()
    assert read_quota_log_record(record) == expected
    assert problems("quota-log", record) == []
