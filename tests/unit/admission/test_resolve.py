"""Records become requests that can be decided, or dead letters that fit their topic."""

import pytest

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.kafka.topics.specs import ENVELOPE, GROWTH
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota, Window
from quota.records.record import Record, Source
from quota.timeline.resolution import ResolvedRequest
from tests.support.factories import record, request_json, timeline

LIMIT = 1024


def letter(value, key=None):
    found = resolve(Record(Source("t", 0, 7), 99, value, key), timeline(), Policy(LIMIT))
    assert isinstance(found, DeadLetter)
    return found


def test_a_request_finds_the_quota_of_its_own_time():
    quotas = timeline((QuotaEntity("alice"), 5.0, 100), (QuotaEntity("alice"), 7.0, 200))
    rates = [
        resolve(record(request_json(1), timestamp=at), quotas, Policy()).resolution.limit.quota.rate
        for at in (199, 200)
    ]
    assert rates == [5.0, 7.0]


def test_a_dead_letter_has_the_record_unchanged():
    found = letter(b"{")
    assert (found.value, found.timestamp, found.source) == ("{", 99, Source("t", 0, 7))
    assert letter(None).value is None
    assert letter(b"\xfe\xff").value == "/v8="


def test_a_record_at_the_limit_is_decided_and_one_over_it_is_not():
    request = request_json(1)
    padded = request + b" " * (LIMIT - len(request))
    assert isinstance(resolve(record(padded), timeline(), Policy(LIMIT)), ResolvedRequest)
    found = letter(padded + b" ")
    assert (
        found.error
        == "value: key and value together are larger than the 1024 bytes that limits.max_request_bytes allows"
    )
    assert found.value == padded.decode()


def test_a_truncated_character_is_dropped_and_not_mistaken_for_invalid_utf_8():
    found = letter(b"x" + "é".encode() * LIMIT)
    assert found.value == "x" + "é" * 511
    assert "limits.max_request_bytes" in found.error


def test_a_large_record_of_invalid_utf_8_is_base64_of_its_beginning():
    found = letter(b"\xff" * 3000)
    assert (found.error, found.value) == ("value: not UTF-8 (byte 0xff at 0)", codec.text(b"\xff" * LIMIT))


def test_a_large_record_whose_kept_beginning_is_text_can_be_shown_and_sent_again():
    """The invalid byte is among the bytes that the key takes from the limit."""
    found = letter(b"x" * 950 + b"\xff" + b"y" * 49, key=b"k" * 100)
    assert "limits.max_request_bytes" in found.error
    assert found.original_value == b"x" * 924


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"\x00" * 100_000, b""),
        (b"\x00" * 200_000, b"k" * 50_000),
        (b"\xff" * 200_000, b"k" * 50_000),
        (b"\x01" * 50_000, b"k" * 50_000),
    ],
)
def test_no_dead_letter_exceeds_the_limit_of_its_topic(value, key):
    found = resolve(Record(Source("t", 0, 7), 99, value, key), timeline(), Policy(100_000))
    assert len(codec.encode(found)) + len(key) <= GROWTH * 100_000 + ENVELOPE


@pytest.mark.parametrize(
    "request_bytes",
    [
        request_json(topics=[{"name": "", "partitions": 0}] * 3600).replace(b" ", b""),
        request_json(1, user="u" * 90_000),
        request_json(1, client_id="\x01" * 16_000),
    ],
)
def test_no_decision_exceeds_the_limit_of_its_topic(request_bytes):
    """In the worst case all topics are refused, and the tags and the entity contain the names once more."""
    quotas = timeline((QuotaEntity(None, None), 5.0, 0))
    resolved = resolve(record(request_bytes), quotas, Policy(100_000, max_name_chars=100_000))
    _, (decision,) = decide(Bucket(-1, 0, Quota(5)), [resolved], TokenBucket(Window()))
    assert decision.topics[0].error_code == 89
    assert len(codec.encode(decision)) <= GROWTH * 100_000 + ENVELOPE


def test_a_record_stamped_by_its_producer_is_a_dead_letter_without_a_time():
    stamped = Record(Source("t", 0, 7), 99, request_json(1), stamped=False)
    found = resolve(stamped, timeline(), Policy())
    assert isinstance(found, DeadLetter)
    assert found.error.startswith("timestamp: set by the producer")
    assert found.timestamp is None


def test_invalid_utf_8_is_reported_regardless_of_the_timestamp_type():
    """Its value is base64, and the error says so."""
    found = resolve(Record(Source("t", 0, 7), 99, b"\xff", stamped=False), timeline(), Policy())
    assert (found.error, found.value, found.timestamp) == ("value: not UTF-8 (byte 0xff at 0)", "/w==", None)


def observed(at, **fields):
    return {"at": at, "error_codes": [0]} | fields


def test_an_observed_request_is_decided_in_shadow_as_of_when_it_was_observed():
    quotas = timeline((QuotaEntity("alice"), 5.0, 100), (QuotaEntity("alice"), 7.0, 200))
    found = resolve(record(request_json(1, observed=observed(150)), timestamp=900), quotas, Policy())
    assert (found.record.timestamp, found.resolution.limit.quota.rate, found.resolution.shadow) == (150, 5.0, True)
    _, (decision,) = decide(Bucket(-60.0, 150, Quota(5.0)), [found], TokenBucket(Window()))
    assert (decision.timestamp, decision.outcome.value, decision.shadow.outcome.value) == (150, "ADMITTED", "REJECTED")
    assert decision.observed.error_codes == [0]


def test_an_observed_request_from_the_future_is_a_dead_letter():
    found = resolve(record(request_json(1, observed=observed(901)), timestamp=900), timeline(), Policy())
    assert found.record.timestamp == 900


def test_a_request_observed_more_than_a_week_ago_is_a_dead_letter():
    week = 7 * 24 * 3600 * 1000
    just = request_json(1, observed=observed(1))
    assert isinstance(resolve(record(just, timestamp=week + 1), timeline(), Policy()), ResolvedRequest)
    found = resolve(record(just, timestamp=week + 2), timeline(), Policy())
    assert found.error == "observed.at: more than seven days before the record (value: 1)"


def test_users_with_their_own_topics_may_not_write_observed_requests():
    found = resolve(record(request_json(1, observed=observed(1))), timeline(), Policy(user_topic_prefix="requests"))
    assert found.error == "observed: not allowed where users have topics of their own (topics.identity=topic)"


def test_an_observed_mutation_is_not_carried_out_again():
    found = resolve(record(request_json(1, observed=observed(1), apply=True)), timeline(), Policy())
    _, (decision,) = decide(None, [found], TokenBucket(Window()))
    assert not decision.apply
    assert decision.shadow is None  # without a quota nothing would have been refused


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"error_codes": [0, 0]}, "observed.error_codes: expected one for each of the 1 topics (value: [0, 0])"),
        ({"error_codes": [2**40]}, "observed.error_codes[0]: expected int <= 32767 (value: 1099511627776)"),
        ({"assumed": [1]}, "observed.assumed: expected indexes of the 1 topics (value: [1])"),
        ({"at": -1}, "observed.at: expected int >= 0 (value: -1)"),
        ({"error_codes": None}, "observed.error_codes: expected array, got null (value: null)"),
        ({"took_ms": 2**31}, "observed.took_ms: expected int <= 2147483647 (value: 2147483648)"),
    ],
)
def test_observed_fields_are_validated(fields, error):
    assert letter(request_json(1, observed=observed(1) | fields)).error == error
