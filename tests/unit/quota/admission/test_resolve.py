"""Records become requests that can be decided, or dead letters that fit their topic."""

import pytest

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.kafka.topics.specs import ENVELOPE, GROWTH
from quota.records import codec
from quota.records.dead_letter import DeadLetter, read_dead_letter
from quota.records.decision import read_decision
from quota.records.entity import QuotaEntity
from quota.records.levels import ResolvedRequest
from quota.records.quota_log import Quota, Window
from quota.records.record import Record, Source
from tests.support.factories import record, request_json, timeline
from tests.support.malformed import all_malformed

LIMIT = 1024
BINARY = "value: not UTF-8 (byte 0xff at 0)"
LARGE = (
    "value: key and value together are larger than the 1024 bytes that a request may have; "
    "name fewer topics in one request"
)


def letter(value, key=None):
    dead = resolve(Record(Source("t", 0, 7), 99, value, key), timeline(), Policy(LIMIT))
    assert isinstance(dead, DeadLetter)
    return dead


def test_a_record_at_the_limit_is_decided_and_one_over_it_is_not():
    request = request_json(1)
    padded = request + b" " * (LIMIT - len(request))
    assert isinstance(resolve(record(padded), timeline(), Policy(LIMIT)), ResolvedRequest)
    dead = letter(padded + b" ")
    assert (dead.error, dead.value) == (LARGE, padded.decode())


@pytest.mark.parametrize(
    ("value", "key", "error", "kept"),
    [
        (b"{", b"", "value: not JSON: Input data was truncated (value: {)", b"{"),
        (b"\xff", b"", BINARY, b"\xff"),
        (b"\xff" * 3000, b"", BINARY, b"\xff" * LIMIT),
        # A truncated character is dropped, and not mistaken for invalid UTF-8.
        (b"x" + "é".encode() * LIMIT, b"", LARGE, b"x" + "é".encode() * 511),
        # The invalid byte is among the bytes that the key takes from the limit.
        (b"x" * 950 + b"\xff" + b"y" * 49, b"k" * 100, LARGE, b"x" * 924),
    ],
)
def test_a_dead_letter_can_be_shown_and_sent_again(value, key, error, kept):
    """Bytes that are no text are base64, and the error says so."""
    dead = letter(value, key)
    assert (dead.error, dead.original_value, dead.timestamp) == (error, kept, 99)
    assert dead.source == Source("t", 0, 7)


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
    dead = resolve(Record(Source("t", 0, 7), 99, value, key), timeline(), Policy(100_000))
    assert len(codec.encode(dead)) + len(key) <= GROWTH * 100_000 + ENVELOPE


@pytest.mark.parametrize(
    "request_bytes",
    [
        request_json(topics=[{"name": "", "partitions": 0}] * 3600).replace(b" ", b""),
        request_json(1, user="u" * 90_000),
        request_json(1, client_id="\x01" * 16_000),
    ],
)
def test_no_decision_exceeds_the_limit_of_its_topic(request_bytes):
    """In the worst case all topics are rejected, and the tags and the entity contain the names once more."""
    quotas = timeline((QuotaEntity(None, None), 5.0, 0))
    resolved = resolve(record(request_bytes), quotas, Policy(100_000, max_name_chars=100_000))
    _, decision = decide(Bucket(-1, 0, Quota(5)), resolved, TokenBucket(Window()))
    assert decision.topics[0].error_code == 89
    assert len(codec.encode(decision)) <= GROWTH * 100_000 + ENVELOPE


@pytest.mark.parametrize(("value", "error"), [(request_json(1), "timestamp: set by the producer"), (b"\xff", BINARY)])
def test_a_record_stamped_by_its_producer_is_a_dead_letter_without_a_time(value, error):
    dead = resolve(Record(Source("t", 0, 7), 99, value, stamped=False), timeline(), Policy())
    assert isinstance(dead, DeadLetter)
    assert dead.error.startswith(error)
    assert dead.timestamp is None


@pytest.mark.parametrize("early_ms", [0, 90_000])
def test_a_mutation_that_had_expired_when_the_broker_received_it_is_not_charged(early_ms):
    """The applier would refuse it; whoever carries it out without an applier needs no time limit."""
    expired = request_json(1, expires_at=100_000)
    dead = resolve(record(expired, timestamp=100_000 + early_ms), timeline(), Policy())
    assert dead.error == (
        f"expires_at: expired {'1 min 30 s' if early_ms else '0 s'} before the broker received the request, so it is "
        "not charged; check the clock of the machine that wrote it (value: 100000)"
    )
    for valid in (expired, request_json(1, expires_at=1, apply=False)):
        assert isinstance(resolve(record(valid, timestamp=99_999), timeline(), Policy()), ResolvedRequest)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, "validate_only: expected true with withdraws, so that no program charges it (value: false)"),
        (
            {"validate_only": True, "observed": {"at": 1, "error_codes": [0]}},
            "withdraws: an observed request cannot be withdrawn, because its mutations have happened",
        ),
    ],
)
def test_a_withdrawal_costs_nothing_also_for_a_program_that_does_not_know_it(fields, error):
    assert letter(request_json(1, withdraws=True, **fields)).error == error


def test_users_with_their_own_topics_may_not_take_back_a_charge():
    """They could do so after acting on it. Nothing of a withdrawal is carried out, whatever it says."""
    own, value = Policy(user_topic_prefix="requests"), request_json(1, withdraws=True, validate_only=True)
    dead = resolve(record(value), timeline(), own)
    assert dead.error == "withdraws: not allowed where users have topics of their own (topics.identity=topic)"
    assert not resolve(record(value), timeline(), Policy()).request.apply


def observed(at, **fields):
    return {"at": at, "error_codes": [0]} | fields


def test_an_observed_request_is_decided_in_shadow_as_of_when_it_was_observed():
    quotas = timeline((QuotaEntity("alice"), 5.0, 100), (QuotaEntity("alice"), 7.0, 200))
    request = resolve(record(request_json(1, observed=observed(150)), timestamp=900), quotas, Policy())
    assert (request.record.timestamp, request.resolution.limit.quota.rate, request.resolution.shadow) == (
        150,
        5.0,
        True,
    )
    _, decision = decide(Bucket(-60.0, 150, Quota(5.0)), request, TokenBucket(Window()))
    assert (decision.timestamp, decision.outcome.value, decision.shadow.outcome.value) == (150, "ADMITTED", "REJECTED")
    assert decision.observed.error_codes == [0]


def test_an_observed_request_from_the_future_is_decided_as_of_its_record():
    request = resolve(record(request_json(1, observed=observed(901)), timestamp=900), timeline(), Policy())
    assert request.record.timestamp == 900


def test_a_request_observed_more_than_a_week_ago_is_a_dead_letter():
    week = 7 * 24 * 3600 * 1000
    just = request_json(1, observed=observed(1))
    assert isinstance(resolve(record(just, timestamp=week + 1), timeline(), Policy()), ResolvedRequest)
    dead = resolve(record(just, timestamp=week + 2), timeline(), Policy())
    assert dead.error == "observed.at: more than seven days before the record (value: 1)"


def test_users_with_their_own_topics_may_not_write_observed_requests():
    dead = resolve(record(request_json(1, observed=observed(1))), timeline(), Policy(user_topic_prefix="requests"))
    assert dead.error == "observed: not allowed where users have topics of their own (topics.identity=topic)"


def test_an_observed_mutation_is_not_carried_out_again():
    request = resolve(record(request_json(1, observed=observed(1), apply=True)), timeline(), Policy())
    _, decision = decide(None, request, TokenBucket(Window()))
    assert (decision.outcome.value, decision.apply) == ("ADMITTED", False)
    assert decision.shadow is None  # without a quota nothing would have been rejected


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"error_codes": [0, 0]}, "observed.error_codes: expected one for each of the 1 topics (value: [0, 0])"),
        ({"assumed": [1]}, "observed.assumed: expected indexes of the 1 topics (value: [1])"),
    ],
)
def test_observed_fields_are_validated(fields, error):
    assert letter(request_json(1, observed=observed(1) | fields)).error == error


def test_each_malformed_record_has_one_answer_which_fits_its_topic_and_can_be_read():
    quotas, bucket = timeline((QuotaEntity("alice"), 5.0, 1)), TokenBucket(Window())
    for value in all_malformed():
        answer = resolve(Record(Source("t", 0, 7), 99, value, b"key"), quotas, Policy())
        if isinstance(answer, DeadLetter):
            assert answer.original_value == value
            assert read_dead_letter(codec.encode(answer)) == answer
        else:
            _, decision = decide(None, answer, bucket)
            assert read_decision(codec.encode(decision)) == decision
            answer = decision
        assert len(codec.encode(answer)) <= GROWTH * len(value) + ENVELOPE
