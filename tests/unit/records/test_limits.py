"""The limits on a request and on the length of its names."""

import pytest

from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.records.dead_letter import DeadLetter
from quota.timeline.resolution import ResolvedRequest
from tests.support.factories import record, request_json, timeline

POLICY = Policy(max_topics=3, max_name_chars=10)
FITS = "ü" * 10
"""As many characters as may be, and twice as many bytes."""
TOPICS = "topics: more than the 3 that a request may have (4)"


def resolve_value(value):
    return resolve(record(value), timeline(), POLICY)


def error_of(value):
    found = resolve_value(value)
    assert isinstance(found, DeadLetter)
    assert found.value == value.decode()
    return found.error


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


def test_the_limits_by_default():
    assert (Policy().max_topics, Policy().max_name_chars) == (10_000, 1_024)
