"""Reading requests: valid ones, and the errors of invalid ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.errors import BadRecord
from quota.records.request import Mode, read_request
from tests.support.factories import request_json


def without(field):
    request = json.loads(request_json(1))
    del request[field]
    return json.dumps(request).encode()


@pytest.mark.parametrize("value", [without("user"), request_json(1, user="", client_id="")])
def test_absent_fields_and_empty_names_have_defaults(value):
    request = read_request(value)
    assert (request.user, request.client_id) == ("ANONYMOUS", "<none>")
    assert (request.validate_only, request.request_throttle_ms, request.purgatory_ms) == (False, 0, 0)


def test_unknown_fields_are_ignored():
    assert read_request(request_json(1, sender="x", timestamp=5)) == read_request(request_json(1))


@pytest.mark.parametrize(
    ("operation", "first_strict"), [("CREATE_TOPICS", 6), ("CREATE_PARTITIONS", 3), ("DELETE_TOPICS", 5)]
)
def test_clients_are_strict_from_the_first_version_with_the_error_code(operation, first_strict):
    modes = [
        read_request(request_json(1, operation=operation, api_version=version)).mode
        for version in (first_strict - 1, first_strict)
    ]
    assert modes == [Mode.PERMISSIVE, Mode.STRICT]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "value: null, expected a JSON object"),
        (b"", "value: not JSON: Input data was truncated (value: )"),
        (b"hello", "value: not JSON: invalid character (byte 0) (value: hello)"),
        (b"[]", "value: expected object, got array (value: [])"),
        (b'{"user": "\xff"}', "value: not UTF-8 (byte 0xff at 10)"),
        (request_json(1) + b"x", "value: not JSON: trailing characters"),
        (without("request_id"), "request_id: missing"),
        (request_json(1, client_id=None, request_id=None), "request_id: expected str, got null"),
        (request_json(), "topics: expected array of length >= 1 (value: [])"),
        (request_json(1, topics=[{"name": "a"}]), "topics[0].partitions: missing"),
        (request_json(3, -1), "topics[1].partitions: expected int >= 0 (value: -1)"),
        (request_json(2**31), "topics[0].partitions: expected int <= 2147483647 (value: 2147483648)"),
        (request_json(1, api_version="6"), 'api_version: expected int, got str (value: "6")'),
        (request_json(1).replace(b": 6", b": 1e999"), "api_version: number out of range"),
        (request_json(1, validate_only="yes"), 'validate_only: expected bool, got str (value: "yes")'),
        (b"[" * 1_000_000, "value: JSON nested deeper than 100 levels"),
        # A field twice, and bytes that are no JSON behind an invalid field.
        (b'{"topics": [{"name": 5}], "topics": 3}', "topics[0].name: expected str, got int"),
        (b'{"request_id": 5, "user": Infinity}', "value: not JSON"),
    ],
)
def test_an_invalid_request_is_reported_with_its_field_and_value(value, error):
    with pytest.raises(BadRecord) as raised:
        read_request(value)
    assert str(raised.value).startswith(error)


def test_an_error_shows_no_more_than_the_beginning_of_a_value():
    with pytest.raises(BadRecord) as raised:
        read_request(request_json(1, user=["x" * 10_000]))
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "tail", [b'"' + b'\\"' * 500_000, b'"' + b"\\" * 999_999, b'"["' * 300_000, b"{" + b"[]," * 300_000]
)
def test_a_malicious_megabyte_is_read_quickly(tail):
    """Each of these took minutes or hours with a bracket scan that steps back."""
    with pytest.raises(BadRecord):
        read_request(b"[]," * 101 + tail)


@pytest.mark.parametrize("fields", [{"user": "[" * 1000 + '"'}, {"topics": [{"name": "t", "partitions": 1}] * 5000}])
def test_neither_brackets_in_strings_nor_many_topics_count_as_depth(fields):
    request = read_request(request_json(1, **fields))
    assert (request.user, len(request.topics)) in {("[" * 1000 + '"', 1), ("alice", 5000)}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
fields = st.sampled_from(["request_id", "user", "client_id", "operation", "api_version", "topics", "purgatory_ms"])


@given(st.binary() | st.dictionaries(fields, json_values).map(lambda value: json.dumps(value).encode()))
def test_invalid_bytes_only_ever_raise_an_invalid_record(value):
    try:
        read_request(value)
    except BadRecord as error:
        assert ": " in str(error)  # noqa: PT017 some of these are requests
