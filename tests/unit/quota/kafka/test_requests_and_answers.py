"""Which answers are parsed; without a broker."""

from types import SimpleNamespace

import pytest
from confluent_kafka import Message

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.kafka import requests_and_answers
from quota.kafka.requests_and_answers import AnswerReader
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.quota_log import Window
from quota.records.record import Source
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
