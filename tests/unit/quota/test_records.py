"""Malformed records of all types: each reader returns a record or raises BadRecord, and nothing else."""

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadRecord
from quota.records import codec
from quota.records.dead_letter import DeadLetter, read_dead_letter
from quota.records.decision import Decision, read_decision
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import ResolvedRequest, levels
from quota.records.quota_log import (
    CallbackRecord,
    ClusterRecord,
    QuotaRecord,
    ResetRecord,
    Window,
    read_quota_log_record,
)
from quota.records.record import BEGINNING
from quota.records.request import MutationRequest, read_request
from quota.text import format_tags, legible, quoted
from quota.whatif.simulation import simulate
from tests.support.factories import DECISION_RECORD, read_result, record, request_json, timeline
from tests.support.malformed import RECORDS, all_malformed

READERS = {
    "request": read_request,
    "withdrawal": read_request,
    "decision": read_decision,
    "dead letter": read_dead_letter,
    "quota": read_quota_log_record,
    "removal": read_quota_log_record,
    "reset": read_quota_log_record,
    "callback": read_quota_log_record,
    "cluster": read_quota_log_record,
}


@pytest.mark.parametrize(
    ("record_type", "kinds"),
    [
        (MutationRequest, ["request", "withdrawal"]),
        (Decision, ["decision"]),
        (DeadLetter, ["dead letter"]),
        (QuotaRecord, ["quota", "removal"]),
        (ResetRecord, ["reset"]),
        (CallbackRecord, ["callback"]),
        (ClusterRecord, ["cluster"]),
    ],
)
def test_the_records_that_become_malformed_have_all_fields(record_type, kinds):
    fields = {field.encode_name for field in msgspec.structs.fields(record_type)}
    assert set().union(*(RECORDS[kind] for kind in kinds)) == fields


@pytest.mark.parametrize("kind", READERS)
def test_a_malformed_record_is_a_bad_record_and_what_is_read_can_be_written_again(kind):
    read = READERS[kind]
    read(json.dumps(RECORDS[kind]).encode())
    for value in all_malformed():
        try:
            record = read(value)
        except BadRecord as error:
            assert str(error).isprintable()  # noqa: PT017 many values are records
            continue
        assert read(codec.encode(record)) == record


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"shadow": {**DECISION_RECORD["shadow"], "error_codes": [0, 89]}}, "shadow.error_codes: not one for each"),
        ({"observed": {"at": 5, "error_codes": []}}, "observed.error_codes: not one for each"),
        ({"repeats": {"decision_id": "t-0-0", "topics": 2}}, "repeats.topics: more than there are topics"),
        ({"quota": 0}, "quota: expected float > 0.0"),
        ({"throttle_time_ms": -1}, "throttle_time_ms: expected int >= 0"),
        ({"timestamp": 2**63}, "timestamp: "),
        ({"source": {"topic": "t", "partition": 0, "offset": 10**30}}, "source.offset: "),
    ],
)
def test_a_decision_that_contradicts_itself_is_a_bad_record(fields, error):
    with pytest.raises(BadRecord) as raised:
        read_decision(json.dumps(DECISION_RECORD | fields).encode())
    assert str(raised.value).removeprefix("value: ").startswith(error)


@pytest.mark.parametrize(
    ("read", "path", "values"),
    [
        (read_request, "operation", "CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS"),
        (read_decision, "mode", "STRICT, PERMISSIVE"),
        (read_decision, "outcome", "ADMITTED, PARTIAL, REJECTED"),
        (read_decision, "shadow.outcome", "ADMITTED, PARTIAL, REJECTED"),
    ],
)
def test_an_unknown_value_is_an_error_that_lists_the_known_ones(read, path, values):
    fields = "DELAYED"
    for name in reversed(path.split(".")):
        fields = {name: fields}
    with pytest.raises(BadRecord) as raised:
        read(json.dumps(fields).encode())
    assert str(raised.value) == f"{path}: invalid enum value 'DELAYED', expected one of {values} (value: \"DELAYED\")"


def test_an_error_in_an_element_of_a_map_shows_the_record():
    with pytest.raises(BadRecord) as raised:
        read_decision(b'{"more_tags": {"a.b": 1}}')
    assert str(raised.value) == 'more_tags[...]: expected str, got int (value: {"more_tags": {"a.b": 1}})'


def test_a_null_in_each_of_many_elements_counts_as_absent():
    topics = b",".join([b'{"name": "t", "error_code": null, "error": null}'] * 1000)
    result = read_result(
        b'{"decision_id": "d", "request_id": "r", "user": "u", "client_id": "c", "operation": "DELETE_TOPICS",'
        b'"validate_only": false, "timestamp": 1, "source": {"topic": "t", "partition": 0, "offset": 1},'
        b'"topics": [' + topics + b"]}"
    )
    assert {(topic.error_code, topic.error) for topic in result.topics} == {(0, "NONE")}
    assert len(result.topics) == 1000


POLICY = Policy(max_topics=3, max_name_chars=10)
FITS = "ü" * 10
"""As many characters as may be, and twice as many bytes."""
TOPICS = "topics: more than the 3 that a request may have (4)"


def resolve_value(value):
    return resolve(record(value), timeline(), POLICY)


def error_of(value):
    letter = resolve_value(value)
    assert isinstance(letter, DeadLetter)
    assert letter.value == value.decode()
    return letter.error


def named(name):
    return {"topics": [{"name": "short", "partitions": 1}, {"name": name, "partitions": 1}]}


LONG = "longer than the 10 characters that a name may have (11, value: 'xxxxxxxxxxx')"


@pytest.mark.parametrize(
    ("fits", "exceeds", "error"),
    [
        ({"topics": named("b")["topics"] + named("b")["topics"][:1]}, {"topics": named("b")["topics"] * 2}, TOPICS),
        *(({name: FITS}, {name: "x" * 11}, f"{name}: {LONG}") for name in ("user", "client_id", "request_id")),
        (named(FITS), named("x" * 11), f"topics[1].name: {LONG}"),
    ],
)
def test_what_is_at_a_limit_is_decided_and_what_exceeds_it_is_not(fits, exceeds, error):
    assert isinstance(resolve_value(request_json(1, **fits)), ResolvedRequest)
    assert error_of(request_json(1, **exceeds)) == error


def test_an_enormous_name_is_not_repeated_in_the_error():
    """The value contains it once, and the error fits a line."""
    assert len(error_of(request_json(1, user="x" * 900_000))) < 200


LOOKALIKES = [
    "alice",
    "Alice",
    "alice ",
    "\u0430lice",  # Cyrillic a
    "al\u0456ce",  # Ukrainian i
    "ali\u200bce",  # zero width space
    "\ufeffalice",  # zero width no-break space
    "\u202eecila",  # right-to-left override
    "\uff41lice",  # full width a
    "ali\u00adce",  # soft hyphen
]
ACCENTS = [unicodedata.normalize(form, "müller") for form in ("NFC", "NFD")]
SEPARATORS = ['a","b', "a", "b", 'a"', "a\\", '["a', "a,b", "a\x00", "a\x00b", "a\n", "a/b", "a|b", "null", "<default>"]
NAMES = [*LOOKALIKES, *ACCENTS, *SEPARATORS]


def test_each_name_is_a_separate_user_with_its_own_bucket():
    """Each spends the same burst of 11 down to -1; a shared bucket would reject the second."""
    requests = [request_json(12, user=user, timestamp=0) for user in NAMES]
    decisions = list(simulate(requests, timeline((QuotaEntity(None), 1.0, BEGINNING)), TokenBucket(Window())))
    assert [(decision.user, decision.user_tag, decision.tokens) for decision in decisions] == [
        (user, user, -1.0) for user in NAMES
    ]


def test_all_names_are_displayed_differently():
    """Displayed names differ in visible ASCII characters."""
    for show in (quoted, lambda name: str(QuotaEntity(name)), lambda name: format_tags({"user": name})):
        seen = [show(name).encode("ascii", "ignore").decode() for name in NAMES]
        assert len(set(seen)) == len(NAMES)
        assert all(name.isprintable() for name in seen)


def test_all_names_are_displayed_differently_on_the_dashboard():
    names = ["alice", "\u0430lice", "\x1b[2Jalice"]
    assert [legible(name) for name in names] == ["alice", "'\u0430lice' (spelled '\\u0430lice')", "'\\x1b[2Jalice'"]


@pytest.mark.parametrize(
    ("surrogate", "error"),
    [
        (b"\\ud800", "value: not JSON"),
        (b"\xed\xa0\x80", "value: not UTF-8"),
    ],
)
def test_a_lone_surrogate_is_not_a_name(surrogate, error):
    """It could not be written to any topic, nor distinguished from others once it is replaced."""
    with pytest.raises(BadRecord, match=error):
        read_request(request_json(1).replace(b'"alice"', b'"' + surrogate + b'"'))


names = st.text(min_size=1)


def test_the_levels_from_the_most_to_the_least_specific():
    assert [(json.loads(entity.key), tags[:2]) for entity, tags in levels("alice", "app")] == [
        ({"user": "alice", "client-id": "app"}, ("alice", "app")),
        ({"user": "alice", "client-id": None}, ("alice", "app")),
        ({"user": "alice"}, ("alice", "")),
        ({"user": None, "client-id": "app"}, ("alice", "app")),
        ({"user": None, "client-id": None}, ("alice", "app")),
        ({"user": None}, ("alice", "")),
        ({"client-id": "app"}, ("", "app")),
        ({"client-id": None}, ("", "app")),
    ]


@given(names, names, names, names)
def test_different_tags_are_different_buckets(user, client, other_user, other_client):
    same = (user, client) == (other_user, other_client)
    assert (Tags(user, client).key == Tags(other_user, other_client).key) == same
    assert Tags(user, "").key != Tags("", user).key


def test_an_entity_reads_as_in_kafkas_tools():
    assert str(QuotaEntity("alice", None)) == "user-principal 'alice', the default client-id"


def test_a_name_cannot_control_an_operators_terminal():
    assert str(QuotaEntity("\x1b[2J")) == r"user-principal '\x1b[2J'"


def test_the_names_of_an_entity_are_those_of_its_non_default_parts():
    assert levels("alice", "app")[0][0].names == {"user": "alice", "client-id": "app"}
    assert levels("alice", "app")[4][0].names == {}
    assert levels("alice", "app")[6][0].names == {"client-id": "app"}
