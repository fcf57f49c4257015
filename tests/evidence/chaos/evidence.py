"""What the topics and the tables hold when all is over, read without the project's own readers."""

import json
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from quota.kafka.clients import client_config
from quota.settings.storage import table_path

_ASK_SECONDS = 30.0
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as its topic holds it; `timestamp` is the broker's, epoch ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def place(self):
        """Where it stands on its topic."""
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Evidence:
    """The logs, the answers, what an undisturbed run answered to the same logs, and the rows of the tables."""

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
    """The evidence of a deployment, and of one that answered the same requests undisturbed."""
    topics = settings.topics

    def records(topic):
        reader = Reader(settings, [topic], from_beginning=True)
        found = reader.read_on()
        reader.close()
        return found

    def rows(name):
        return DeltaTable(table_path(settings, name)).to_pyarrow_table().to_pylist()

    return Evidence(
        records(topics.requests),
        records(topics.quotas),
        records(topics.decisions),
        records(topics.dead_letters),
        records(undisturbed.topics.decisions),
        records(undisturbed.topics.dead_letters),
        rows("decisions"),
        rows("dead_letters"),
        rows("quota_changes"),
    )


class Reader:
    """Reads topics up to their present end, as often as it is asked to."""

    def __init__(self, settings, topics, *, from_beginning=False):
        """Begin at the topics' beginning, or at their present end."""
        own = {"group.id": "chaos", "enable.auto.commit": False, "fetch.wait.max.ms": 5}
        self._consumer = Consumer(client_config(settings.kafka.connection, own))
        self._positions = {}
        for topic in topics:
            for partition in self._consumer.list_topics(topic, timeout=_ASK_SECONDS).topics[topic].partitions:
                self._positions[topic, partition] = 0
        if not from_beginning:
            self._positions = self.ends()
        self._consumer.assign([TopicPartition(*each, position) for each, position in self._positions.items()])

    def ends(self):
        """The topics' present ends, by topic and partition."""
        return {
            each: self._consumer.get_watermark_offsets(TopicPartition(*each), timeout=_ASK_SECONDS)[1]
            for each in self._positions
        }

    def read_on(self):
        """What has come since the last time."""
        found = []
        ends = self.ends()
        while any(self._positions[each] < end for each, end in ends.items()):
            for message in self._consumer.consume(_MOST, 0.005):
                assert message.error() is None, message.error()
                place = message.topic(), message.partition(), message.offset()
                self._positions[place[:2]] = place[2] + 1
                found.append(Stored(*place, message.timestamp()[1], message.key(), message.value()))
        return found

    def close(self):
        """Let go of the connection."""
        self._consumer.close()


def source_of(answer):
    """Where the request stands that an answer is about: partition and offset."""
    source = json.loads(answer.value)["source"]
    return source["partition"], source["offset"]
