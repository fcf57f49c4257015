"""Reading topics whose first records are deleted meanwhile, as retention does."""

import pytest
from confluent_kafka import TopicPartition

from quota.kafka import reading
from quota.kafka.requests_and_answers import AnswerReader
from quota.kafka.topics.preparation import prepare_topics
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.record import Source
from tests.support.clients import admin_of
from tests.support.topics import produce
from tests.support.waiting import until


@pytest.fixture
def delete_up_to(deployment):
    """Return a function that deletes the dead letters before an offset."""
    prepare_topics(deployment)
    admin = admin_of(deployment)
    topic = deployment.topics.dead_letters
    letters = [
        DeadLetter(error="e", value=None, timestamp=5, source=Source("mutation-requests", 0, offset))
        for offset in range(10)
    ]
    produce(deployment, topic, *map(codec.encode, letters))

    def _delete(offset):
        for deleted in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
            deleted.result(10)

    return _delete


def test_records_that_remain_are_read_although_others_are_deleted_once_the_read_has_begun(
    deployment, delete_up_to, monkeypatch
):
    offset_range = reading.offset_range

    def then_delete(*args):
        offsets = offset_range(*args)
        delete_up_to(4)
        return offsets

    monkeypatch.setattr(reading, "offset_range", then_delete)
    messages = reading.read_topic(deployment.kafka.connection, deployment.topics.dead_letters, 10)
    assert [message.offset() for message in messages if message.partition() == 0] == [4, 5, 6, 7, 8, 9]


def test_a_reader_of_answers_continues_at_the_first_one_that_remains(deployment, delete_up_to, monkeypatch):
    start = AnswerReader._start  # noqa: SLF001

    def then_delete(reader, partition, *args):
        position = start(reader, partition, *args)
        if partition.topic == deployment.topics.dead_letters:
            delete_up_to(4)
        return position

    monkeypatch.setattr(AnswerReader, "_start", then_delete)
    reader, received = AnswerReader(deployment, since=0), []

    def last():
        received.extend(new.answer.source.offset for new in reader.read())
        return received[-1:] == [9]

    until(last, 20)
    reader.close()
    assert received == [4, 5, 6, 7, 8, 9]
