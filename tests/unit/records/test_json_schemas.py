"""The JSON Schemas of the records: as the code has them, and of one mind with its readers."""

import json
import re

import msgspec
import pytest
from jsonschema import Draft202012Validator

from quota.admission.policy import Policy
from quota.algorithms.deduplication import Deduplication
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
from quota.records.record import Source
from quota.records.request import Operation, read_request
from quota.records.result import MutationResult, TopicResult
from quota.whatif.simulation import read_quotas, simulate
from tests.support.checkout import CHECKOUT
from tests.support.factories import PERMISSIVE, request_json
from tests.support.factories import request_at as at

README = (CHECKOUT / "README.md").read_text()
NAMES = ["request", "decision", "dead-letter", "result", "quota-log"]
READERS = {"request": read_request, "quota-log": read_quota_log_record}
TOPIC_DETAILS = ("count", "replication_factor", "assignments", "configs")
ALICE = {"entity": {"user": "alice"}, "controller_mutation_rate": 5}


def schema_of(name):
    return json.loads((CHECKOUT / "schemas" / "json" / f"{name}.schema.json").read_text())


def validator(name):
    return Draft202012Validator(schema_of(name))


def problems(name, record):
    return [error.message for error in validator(name).iter_errors(json.loads(record))]


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_has_the_newest_draft_and_a_unique_name(name):
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:kafka-mutation-quota:{name}"
    assert schema["title"]


@pytest.mark.parametrize("name", NAMES)
def test_each_type_and_field_says_what_it_means(name):
    schema = schema_of(name)
    for each in [schema, *schema["$defs"].values()]:
        assert each["description"]
        assert [
            field for field, field_schema in each.get("properties", {}).items() if not field_schema["description"]
        ] == []


def test_the_example_of_the_readme_is_a_request():
    (block,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    assert problems("request", block) == []


def test_the_results_of_deciding_match_the_schemas_of_decisions_and_dead_letters():
    """Decisions are strict, permissive, unlimited, in shadow, refused and repeated, with all fields of a request."""
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
    quotas = read_quotas([json.dumps(each).encode() for each in (ALICE, bob)])
    policy = Policy(deduplication=Deduplication(window_ms=1000))
    answers = [
        codec.encode(each)
        for each in simulate(lines, quotas, TokenBucket(Window(), policy.deduplication), policy=policy)
    ]
    assert [problems("decision", each) for each in answers[:-2]] == [[]] * 8
    assert [problems("dead-letter", each) for each in answers[-2:]] == [[]] * 2
    assert all(problems("decision", each) for each in answers[-2:])
    shown = [json.loads(each) for each in answers[:-2]]
    assert [bool(each["repeats"]) for each in shown].count(True) == 1
    assert [bool(each["shadow"]) for each in shown].count(True) == 2


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
    result = MutationResult(
        decision_id="mutation-requests-0-7",
        request_id="r",
        user="alice",
        client_id="app",
        operation=Operation.CREATE_TOPICS,
        validate_only=False,
        topics=topics,
        timestamp=5,
        source=Source("mutation-decisions", 0, 8),
    )
    assert problems("result", codec.encode(result)) == []
    assert problems("result", codec.encode(msgspec.structs.replace(result, topics=None)))


GOOD = {
    "request": [
        request_json(1),
        request_json(0, user="", client_id="", api_version=0),
        request_json(2**31 - 1, purgatory_ms=1, request_throttle_ms=2, validate_only=True),
        request_json(1, unknown={"field": 1}),
        request_json(1, expires_at=253_402_300_799_999),
        request_json(1, **dict.fromkeys(("user", "client_id", "validate_only", "request_throttle_ms"))),
        request_json(1, **dict.fromkeys(("purgatory_ms", "apply", "expires_at", "observed"))),
        request_json(1, topics=[{"name": "t", "partitions": 1} | dict.fromkeys(TOPIC_DETAILS)]),
        request_json(1, observed={"at": 1, "error_codes": [0], "throttle_time_ms": None, "took_ms": None}),
        request_json(1, observed={"at": 1, "error_codes": [0], "assumed": None}),
    ],
    "quota-log": [
        json.dumps(ALICE).encode(),
        json.dumps(ALICE | {"unknown": 1}).encode(),
        json.dumps({"entity": {"client-id": None}, "controller_mutation_rate": None}).encode(),
        json.dumps(ALICE | dict.fromkeys(("shadow", "cancelled", "effective_at", "comment"))).encode(),
        json.dumps(ALICE | dict.fromkeys(("bucket", "callback", "cluster"))).encode(),
        json.dumps({"bucket": {"user": "alice"}, "entity": None, "callback": None}).encode(),
        json.dumps(dict.fromkeys(("entity", "bucket", "callback", "cluster"))).encode(),
        json.dumps({"callback": {"class": "a.B", "configs": None}, "cancelled": None}).encode(),
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
        request_json(1, topics=[{"name": "t", "partitions": 1, "replication_factor": 40_000}]),
    ],
    "quota-log": [
        b"{}",
        *(
            json.dumps(each).encode()
            for each in (
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


@pytest.mark.parametrize(("name", "record"), [(name, each) for name, some in GOOD.items() for each in some])
def test_records_that_the_reader_accepts_are_valid(name, record):
    READERS[name](record)
    assert problems(name, record) == []


@pytest.mark.parametrize(("name", "record"), [(name, each) for name, some in BAD.items() for each in some])
def test_records_that_the_reader_rejects_are_invalid(name, record):
    with pytest.raises(BadRecord):
        READERS[name](record)
    assert problems(name, record)
