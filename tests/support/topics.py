"""Records into and out of a deployment's topics."""

import json
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from quota.kafka.reading import make_consumer, offset_range, topic_partitions
from quota.settings import Settings
from tests.support.clients import QUIET

DEADLINE_SECONDS = 60


def produce(settings: Settings, topic: str, *values, key=b"alice", partition=0):
    """Produce records in order to one partition, in one batch if they fit."""
    producer = Producer(
        {
            **QUIET,
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "message.max.bytes": 8_000_000,
            "linger.ms": 100,
        }
    )
    for value in values:
        producer.produce(topic, value, key, partition=partition)
    assert producer.flush(DEADLINE_SECONDS) == 0


def consume(settings: Settings, topic: str, count: int):
    """Return the records of a topic from its beginning as (key, JSON), once there are at least `count`."""
    consumer = Consumer({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers, "group.id": "test"})
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
    """Return all records of a topic without active writers."""
    return consume(settings, topic, sum(end_offsets(settings, topic).values()))


def end_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """Return the end offset of each partition of a topic."""
    consumer = make_consumer(settings.kafka.connection, "test")
    try:
        return {
            partition: offset_range(consumer, TopicPartition(topic, partition), DEADLINE_SECONDS)[1]
            for partition in topic_partitions(consumer, topic, DEADLINE_SECONDS)
        }
    finally:
        consumer.close()
