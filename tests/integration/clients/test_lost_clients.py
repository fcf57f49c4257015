"""Clients of librdkafka that never connect again are replaced, and topics are read whose first records are deleted."""

import json

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from quota.errors import ClusterError
from quota.kafka import librdkafka, reading, requests_and_answers
from quota.kafka.librdkafka import client_config
from quota.kafka.producers import RecordProducer
from quota.kafka.quotas.log import KafkaQuotas, QuotaLog
from quota.kafka.quotas.writer import write_record
from quota.kafka.reading import make_consumer, read_topic
from quota.kafka.requests_and_answers import AnswerReader, RequestWriter
from quota.kafka.target import Target
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, QuotaRecord
from quota.records.record import Source
from quota.settings.connection import Connection
from tests.support.topics import admin_of, produce
from tests.support.waiting import until

NOWHERE = Connection("127.0.0.1:1")
"""A client of this cluster fails as a lost one does, and like that one cannot be mended."""
SECONDS = 10


@pytest.fixture
def prepared(deployment):
    prepare_topics(deployment)
    return deployment


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(librdkafka, "_LOST_SECONDS", 0.0)


def lose_consumer(owner):
    owner._kept.client = make_consumer(NOWHERE, "lost")  # noqa: SLF001


def write_letters(settings, *names):
    letters = [
        DeadLetter(error=name, value=None, timestamp=5, source=Source("mutation-requests", 0, 0)) for name in names
    ]
    produce(settings, settings.topics.dead_letters, *map(codec.encode, letters))


def test_answers_are_read_on_from_where_they_were(prepared, monkeypatch):
    """Each once, also in topics of which nothing was read before; here the first dead letter is not to be read."""
    monkeypatch.setattr(requests_and_answers, "_REFRESH_SECONDS", 0.2)
    write_letters(prepared, "before the reader")
    reader, other = AnswerReader(prepared), AnswerReader(prepared)
    read, read_by_other = [], []

    def read_more(reader, errors):
        errors += [received.answer.error for received in reader.read()]
        return len(errors)

    write_letters(prepared, "one", "two")
    until(lambda: read_more(reader, read) == 2)
    for lost in (reader, other):
        lose_consumer(lost)
    write_letters(prepared, "three")
    until(lambda: read_more(reader, read) == 3)
    until(lambda: read_more(other, read_by_other) == 3)
    assert read == read_by_other == ["one", "two", "three"]
    reader.close()
    other.close()


def test_requests_are_written_once_one_could_not_be(prepared):
    writer = RequestWriter(prepared, limit_seconds=SECONDS)
    lost = client_config(NOWHERE, {"message.timeout.ms": 500})
    writer._kept.client = RecordProducer(lost)  # noqa: SLF001
    ends = {}

    def send(number):
        def on_delivery(error, _):
            ends[number] = error and error.name()

        writer.send_bytes(prepared.topics.requests, json.dumps(number).encode(), on_delivery=on_delivery)

    def polled():
        writer.poll()
        return ends

    send(1)
    until(lambda: 1 in polled())
    send(2)
    until(lambda: 2 in polled())
    assert ends == {1: "_MSG_TIMED_OUT", 2: None}
    topic = read_topic(prepared.kafka.connection, prepared.topics.requests, SECONDS)
    assert [message.value() for message in topic] == [b"2"]


def test_a_missing_topic_is_reported_before_a_request_counts_as_not_delivered(prepared):
    """Otherwise the producer would be replaced at each, and a user without a topic would make the job appear silent."""
    writer, errors = RequestWriter(prepared, limit_seconds=4.0), []
    writer.send_bytes("missing", b"1", on_delivery=lambda error, _: errors.append(error.name()))

    def polled():
        writer.poll()
        return errors

    assert until(polled) == ["UNKNOWN_TOPIC_OR_PART"]


def test_the_quota_log_is_read_on(prepared):
    log = QuotaLog(KafkaQuotas.from_settings(prepared, 2))
    write_record(prepared, QuotaRecord.of(QuotaEntity("alice", None), Quota(5.0)))
    log.read_to_end()
    lose_consumer(log)
    write_record(prepared, QuotaRecord.of(QuotaEntity("bob", None), Quota(5.0)))
    log.read_to_end()
    assert {change.entity.user for change in log.timeline.configured(log.now)} == {"alice", "bob"}
    log.close()


@pytest.mark.parametrize("call", ["layout", "describe", "offsets"])
def test_topics_are_read_after_one_failure(prepared, monkeypatch, call):
    monkeypatch.setattr(librdkafka, "_CAUSE_SECONDS", 0.1)
    topics, name = TopicAdmin(prepared.kafka.connection, 2), prepared.topics.requests
    topics._kept.client = AdminClient(client_config(NOWHERE))  # noqa: SLF001
    arguments = {"layout": [], "describe": [[name]], "offsets": [[(name, 0)]]}[call]
    with pytest.raises(ClusterError):
        getattr(topics, call)(*arguments)
    assert getattr(topics, call)(*arguments)


def test_topics_are_described_after_one_failure(prepared):
    target, name = Target(client_config(prepared.kafka.connection)), prepared.topics.requests
    target._kept.client = AdminClient(client_config(NOWHERE))  # noqa: SLF001
    assert target.partitions([name], 1)[0] == {}
    found, errors = target.partitions([name], SECONDS)
    assert (list(found), errors) == ([name], {})


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
    start_offset = requests_and_answers.start_offset

    def then_delete(consumer, partition, *args):
        offset = start_offset(consumer, partition, *args)
        if partition.topic == deployment.topics.dead_letters:
            delete_up_to(4)
        return offset

    monkeypatch.setattr(requests_and_answers, "start_offset", then_delete)
    reader, received = AnswerReader(deployment, since=1), []

    def last():
        received.extend(new.answer.source.offset for new in reader.read())
        return received[-1:] == [9]

    until(last, 20)
    reader.close()
    assert received == [4, 5, 6, 7, 8, 9]
