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


def resolve_value(value):
    return resolve(record(value), timeline(), POLICY)


def error_of(value):
    found = resolve_value(value)
    assert isinstance(found, DeadLetter)
    assert found.value == value.decode()
    return found.error


def named(name):
    return {"topics": [{"name": "short", "partitions": 1}, {"name": name, "partitions": 1}]}


def test_the_maximum_of_topics_is_decided_and_one_more_is_not():
    assert isinstance(resolve_value(request_json(1, 1, 1)), ResolvedRequest)
    assert error_of(request_json(1, 1, 1, 1)) == "topics: more than the 3 that a request may have (4)"


@pytest.mark.parametrize("field", ["user", "client_id", "request_id"])
def test_the_length_of_names_is_bounded(field):
    assert isinstance(resolve_value(request_json(1, **{field: FITS})), ResolvedRequest)
    assert error_of(request_json(1, **{field: "x" * 11})) == (
        f"{field}: longer than the 10 characters that a name may have (11, value: 'xxxxxxxxxxx')"
    )


def test_the_length_of_topic_names_is_bounded():
    assert isinstance(resolve_value(request_json(**named(FITS))), ResolvedRequest)
    assert error_of(request_json(**named("x" * 11))) == (
        "topics[1].name: longer than the 10 characters that a name may have (11, value: 'xxxxxxxxxxx')"
    )


def test_an_enormous_name_is_not_repeated_in_the_error():
    """The value contains it once, and the error fits a line."""
    assert len(error_of(request_json(1, user="x" * 900_000))) < 200


def test_the_limits_by_default():
    assert (Policy().max_topics, Policy().max_name_chars) == (10_000, 1_024)
