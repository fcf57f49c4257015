"""From records to requests that can be judged, or to dead letters that fit their topic."""

import pytest

from quota import codec
from quota.decision import ENVELOPE, GROWTH, DeadLetter
from quota.entity import QuotaEntity
from quota.record import Record, Source
from quota.resolution import ResolvedRequest, resolve
from tests.factories import record, request_json, timeline

LIMIT = 1024


def letter(value, key=None):
    found = resolve(Record(Source("t", 0, 7), 99, value, key), timeline(), LIMIT)
    assert isinstance(found, DeadLetter)
    return found


def test_a_request_finds_the_quota_of_its_own_time():
    quotas = timeline((QuotaEntity("alice"), 5.0, 100), (QuotaEntity("alice"), 7.0, 200))
    rates = [resolve(record(request_json(1), timestamp=at), quotas).resolution.limit.rate for at in (199, 200)]
    assert rates == [5.0, 7.0]


def test_a_dead_letter_holds_the_record_as_it_came():
    found = letter(b"{")
    assert (found.value, found.timestamp, found.source) == ("{", 99, Source("t", 0, 7))
    assert letter(None).value is None
    assert letter(b"\xfe\xff").value == "/v8="


def test_a_record_at_the_limit_is_judged_and_one_over_it_is_not():
    request = request_json(1)
    padded = request + b" " * (LIMIT - len(request))
    assert isinstance(resolve(record(padded), timeline(), LIMIT), ResolvedRequest)
    found = letter(padded + b" ")
    assert found.error == "value: a record of more than the 1024 bytes that limits.max_request_bytes allows"
    assert found.value == padded.decode()


def test_a_character_cut_in_two_is_left_out_and_not_taken_for_bytes_that_are_no_text():
    found = letter(b"x" + "é".encode() * LIMIT)
    assert found.value == "x" + "é" * 511
    assert "limits.max_request_bytes" in found.error


def test_a_large_record_that_is_no_text_is_base64_of_its_beginning():
    found = letter(b"\xff" * 3000)
    assert (found.error, found.value) == ("value: not UTF-8 (byte 0xff at 0)", codec.text(b"\xff" * LIMIT))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"\x00" * LIMIT, None),
        (b"\x00" * 100_000, b"k" * 500),
        (b"\xff" * 100_000, b"k" * 500),
        (b"\x01" * 500, b"k" * 524),
        (request_json(*[0] * 18, user="a" * 20), b""),
    ],
)
def test_no_answer_is_larger_than_its_topic_takes(value, key):
    size = len(codec.encode(letter(value, key))) if value[0] != ord("{") else 0
    assert size + len(key or b"") <= GROWTH * LIMIT + ENVELOPE
