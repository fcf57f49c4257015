"""The records of the topics and the rows of the tables after a run, read without the project's own readers."""

import json
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from quota.kafka.librdkafka import client_config
from tests.support.tables import read_table

_TIMEOUT_SECONDS = 30.0
_MAX_MESSAGES = 1000


@dataclass(frozen=True, slots=True)
class Stored:
    """A record of a topic; `timestamp` is the broker's, epoch ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def position(self):
        """Partition and offset."""
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Evidence:
    """The logs, the answers, the answers of an undisturbed run with the same logs, and the rows of the tables."""

    requests: list[Stored]
    quotas: list[Stored]
    decisions: list[Stored]
    dead_letters: list[Stored]
    undisturbed_decisions: list[Stored]
    undisturbed_dead_letters: list[Stored]
    decision_rows: list[dict]
    dead_letter_rows: list[dict]
    quota_rows: list[dict]


def gather(settings, undisturbed):
    """Return the evidence of a deployment, and of one that answered the same requests undisturbed."""
    topics = settings.topics

    def records(topic):
        with closing(Reader(settings, [topic], from_beginning=True)) as reader:
            return reader.read_new()

    return Evidence(
        records(topics.requests),
        records(topics.quotas),
        records(topics.decisions),
        records(topics.dead_letters),
        records(undisturbed.topics.decisions),
        records(undisturbed.topics.dead_letters),
        read_table(settings, "decisions"),
        read_table(settings, "dead_letters"),
        read_table(settings, "quota_changes"),
    )


class Reader:
    """Reads topics up to their current end."""

    def __init__(self, settings, topics, *, from_beginning=False):
        """Start at the beginning of the topics, or at their current end."""
        own: dict[str, str | float] = {"group.id": "chaos", "enable.auto.commit": False, "fetch.wait.max.ms": 5}
        self._consumer = Consumer(client_config(settings.kafka.connection, own))
        self._positions = {}
        for topic in topics:
            for partition in self._consumer.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic].partitions:
                self._positions[topic, partition] = 0
        if not from_beginning:
            self._positions = self.ends()
        self._consumer.assign([TopicPartition(*place, position) for place, position in self._positions.items()])

    def ends(self):
        """Return the end offsets by topic and partition."""
        return {
            place: self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=_TIMEOUT_SECONDS)[1]
            for place in self._positions
        }

    def read_new(self):
        """Return the records since the last call."""
        records = []
        ends = self.ends()
        while any(self._positions[place] < end for place, end in ends.items()):
            for message in self._consumer.consume(_MAX_MESSAGES, 0.005):
                assert message.error() is None, message.error()
                position = message.topic(), message.partition(), message.offset()
                self._positions[position[:2]] = position[2] + 1
                records.append(Stored(*position, message.timestamp()[1], message.key(), message.value()))
        return records

    def close(self):
        """Close the connection."""
        self._consumer.close()


def source_of(answer):
    """Return partition and offset of the request of an answer."""
    source = json.loads(answer.value)["source"]
    return source["partition"], source["offset"]
