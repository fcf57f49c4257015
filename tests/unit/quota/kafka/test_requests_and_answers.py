"""Which answers are parsed, and the login of a producer that is replaced; without a broker."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, Message

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.kafka import librdkafka, requests_and_answers
from quota.kafka.requests_and_answers import AnswerReader, RequestWriter, read_requests
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.quota_log import Window
from quota.records.record import Source
from quota.settings import load_settings
from tests.support.factories import resolved

SOURCE = Source("mutation-requests", 0, 1)


def decision(request_id):
    return decide(None, resolved(1, request_id=request_id), TokenBucket(Window()))[1]


@pytest.fixture
def answers(base_settings, monkeypatch):
    """The answers that a reader of the ids `mine-...` gets from messages, and the number of those that it parsed."""

    def _answers(*messages):
        monkeypatch.setattr(requests_and_answers, "make_consumer", lambda *_: SimpleNamespace(assign=lambda _: None))
        monkeypatch.setattr(AnswerReader, "_assign_new_partitions", lambda *_, **__: None)
        monkeypatch.setattr(requests_and_answers, "poll_batch", lambda *_: messages)
        return [received.answer for received in AnswerReader(base_settings, request_id_prefix="mine-").read()]

    return _answers


def test_a_producer_that_is_replaced_logs_in_by_what_its_files_have_then(tmp_path, monkeypatch):
    """It is replaced once the cluster does not respond, as after a password was changed."""
    monkeypatch.setattr(librdkafka, "_LOST_SECONDS", 0.0)
    made, password = [], tmp_path / "password"
    monkeypatch.setattr(requests_and_answers, "RecordProducer", lambda config: made.append(config["sasl.password"]))
    password.write_text("first")
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "gateway"}
    given = login | {"sasl_password": f"file:{password}"}
    writer = RequestWriter(load_settings([f"kafka.{name}={value}" for name, value in given.items()], environment={}))
    password.write_text("second")
    writer._on_delivery(None, lambda *_: None, KafkaError(KafkaError._MSG_TIMED_OUT), None)  # noqa: SLF001
    assert made == ["first", "second"]


def test_only_decisions_with_the_prefix_and_all_dead_letters_are_read_without_malformed_ones(answers, base_settings):
    topics = base_settings.topics
    letter = DeadLetter(error="value: null", value=None, timestamp=5, source=SOURCE)
    mine, others = [decision("mine-1"), letter], [decision("other-1")]
    names = {type(mine[0]): topics.decisions, type(letter): topics.dead_letters}
    messages = [
        Message(names[type(answer)], 0, 1, value=codec.encode(answer), timestamp=(2, 7))
        for answer in [*others, *mine, *others]
    ]
    assert answers(*messages) == mine

    malformed = b'{"request_id":"mine-3","shadow":{"outcome":"X"}}'
    between = [Message(name, 0, 1, value=malformed, timestamp=(2, 7)) for name in names.values()]
    assert answers(*[received for message in messages for received in (*between, message)]) == mine


def test_the_requests_of_others_with_the_prefix_are_read_by_their_times_without_malformed_ones(
    base_settings, monkeypatch
):
    """Each partition has its own order: a deletion comes after the creation before it, and a withdrawal, too."""
    values = {
        5: resolved(1, request_id="mine-1").request,
        9: resolved(1, request_id="mine-1").request.withdrawal,
        7: resolved(1, request_id="mine-2").request,
        6: resolved(1, request_id="other-1").request,
    }
    messages = [Message("r", 0, 1, value=codec.encode(request), timestamp=(2, at)) for at, request in values.items()]
    messages += [Message("r", 0, 1, value=value, timestamp=(2, 1)) for value in (None, b'{"request_id":"mine-3"}')]
    monkeypatch.setattr(requests_and_answers, "read_topic", lambda *_: iter(messages))
    read = [(request.request_id, request.withdraws) for request in read_requests(base_settings, "mine-")]
    assert read == [("mine-1", False), ("mine-2", False), ("mine-1", True)]
