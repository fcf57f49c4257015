"""Records into and out of a deployment's topics and tables."""

import json
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable

from quota.kafka.clients import ends, partitions_of, tail
from quota.settings.model import Settings
from quota.settings.storage import table_path

DEADLINE_SECONDS = 60


def produce(settings: Settings, topic: str, *values, key=b"alice", partition=0):
    """Produce records in order to one partition, in one batch where they fit."""
    producer = Producer(
        {"bootstrap.servers": settings.kafka.bootstrap_servers, "message.max.bytes": 8_000_000, "linger.ms": 100}
    )
    for value in values:
        producer.produce(topic, value, key, partition=partition)
    assert producer.flush(DEADLINE_SECONDS) == 0


def consume(settings: Settings, topic: str, count: int):
    """Records of a topic from its beginning, once there are `count`; (key, JSON)."""
    consumer = Consumer({"bootstrap.servers": settings.kafka.bootstrap_servers, "group.id": "test"})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append((message.key(), json.loads(message.value())))
    consumer.close()
    assert len(found) >= count, f"{len(found)} records in {topic} instead of {count}"
    return found


def consume_all(settings: Settings, topic: str):
    """All records of a topic that nobody writes to any more."""
    return consume(settings, topic, sum(ends_of(settings, topic).values()))


def ends_of(settings: Settings, topic: str) -> dict[int, int]:
    """The present end of each partition of a topic."""
    consumer = tail(settings.kafka.connection, "test")
    try:
        return {
            partition: ends(consumer, TopicPartition(topic, partition), DEADLINE_SECONDS)[1]
            for partition in partitions_of(consumer, topic, DEADLINE_SECONDS)
        }
    finally:
        consumer.close()


def finish(query):
    assert query.awaitTermination(DEADLINE_SECONDS)
    assert query.exception() is None


def table(settings: Settings, name: str):
    return DeltaTable(table_path(settings, name)).to_pyarrow_table().to_pylist()
