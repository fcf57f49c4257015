"""All problems of an invalid record, and who sent it."""

import json

import pytest

from quota.admission.problems import claimed_sender, more_problems
from quota.admission.validation import valid_request
from quota.errors import BadRecord
from quota.settings import load_settings
from tests.support.factories import record

VALID = {"request_id": "r", "operation": "CREATE_TOPICS", "api_version": 7, "topics": [{"name": "t", "partitions": 1}]}


def policy(*more):
    return load_settings(list(more), environment={}, with_default_file=False).policy


def problems(fields):
    """Return the problem that makes a record a dead letter, and the others."""
    sent = record(json.dumps(fields).encode(), 0, 1)
    with pytest.raises(BadRecord) as raised:
        valid_request(sent, policy())
    return [str(raised.value), *more_problems(sent, str(raised.value), policy())]


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"operation": "CREATE"}, ["operation"]),
        ({"operation": "CREATE", "api_version": "x", "user": 5}, ["operation", "api_version", "user"]),
        ({"operation": None, "request_id": ""}, ["request_id", "operation"]),
        (
            {"topics": [{"name": "t"}, {"name": "u", "partitions": 1}, {"name": "v", "partitions": -1}]},
            ["topics[0].partitions", "topics[2].partitions"],
        ),
        ({"topics": []}, ["topics"]),
        ({"user": "a" * 70_000}, ["user"]),
    ],
)
def test_each_invalid_field_has_its_problem(change, fields):
    messages = problems({**VALID, **change})
    assert sorted(message.partition(":")[0] for message in messages) == sorted(fields)


def test_a_missing_field_is_a_problem_besides_a_wrong_one():
    assert problems({"operation": "CREATE", "request_id": "r", "topics": VALID["topics"]})[1:] == [
        "api_version: missing"
    ]


@pytest.mark.parametrize("value", [b"", b"\xff", b"[1]", b"{", b"7"])
def test_what_is_no_object_has_only_its_one_problem_and_no_sender(value):
    assert more_problems(record(value, 0, 1), "value: not JSON", policy()) == []
    assert claimed_sender(record(value, 0, 1), policy()) == (None, None)


@pytest.mark.parametrize(
    ("fields", "more", "sender"),
    [
        ({"user": "alice", "client_id": "app"}, [], ("alice", "app")),
        ({"user": "", "client_id": 7}, [], (None, None)),
        ({"user": "alice"}, ["topics.identity=topic", "topics.requests=mutation"], ("alice", None)),
    ],
)
def test_the_sender_is_whom_the_record_names(fields, more, sender):
    assert claimed_sender(record(json.dumps(fields).encode(), 0, 1), policy(*more)) == sender
