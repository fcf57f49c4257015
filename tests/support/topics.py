"""What the plain Kafka clients of tests share, and records into and out of a deployment's topics."""

import json
from contextlib import closing

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from quota.kafka.reading import make_consumer, offset_range, read_topic, topic_partitions
from quota.settings import Settings
from tests.support.waiting import until

DEADLINE_SECONDS = 60


def produce(settings: Settings, topic: str, *values, key=b"alice", partition=0):
    """Produce records in order to one partition, in one batch if they fit."""
    large = {"message.max.bytes": 8_000_000, "linger.ms": 100}
    producer = Producer({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers, **large})
    for value in values:
        producer.produce(topic, value, key, partition=partition)
    assert producer.flush(DEADLINE_SECONDS) == 0


def consume(settings: Settings, topic: str, count: int):
    """Return the records of a topic from its beginning as (key, JSON), once there are at least `count`."""

    def records():
        consumed = consume_all(settings, topic)
        return consumed if len(consumed) >= count else []

    return until(records, DEADLINE_SECONDS)


def consume_all(settings: Settings, topic: str):
    """Return all records of a topic as (key, JSON)."""
    messages = read_topic(settings.kafka.connection, topic, DEADLINE_SECONDS)
    return [(message.key(), json.loads(message.value())) for message in messages]


def decisions_of(settings: Settings):
    """Return the decisions of a deployment by their id; copies of a decision must be equal."""
    decisions = {}
    for _, decision in consume_all(settings, settings.topics.decisions):
        assert decisions.setdefault(decision["decision_id"], decision) == decision
    return decisions


def end_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """Return the end offset of each partition of a topic."""
    with closing(make_consumer(settings.kafka.connection, "test")) as consumer:
        return {
            partition: offset_range(consumer, TopicPartition(topic, partition), DEADLINE_SECONDS)[1]
            for partition in topic_partitions(consumer, topic, DEADLINE_SECONDS)
        }


QUIET = {"log_level": 2}
"""Silences librdkafka's own log, as the project's clients do.

A test may stop the broker before its clients. Each client would print to standard error that it cannot connect, in the
middle of pytest's output.
"""


def admin_of(settings):
    """Return an admin client of the cluster of a deployment."""
    return AdminClient({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers})


def open_transaction(settings, topic, value):
    """Write a record in a transaction that stays open, to the first partition of a topic; return its producer."""
    config = {**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers, "transactional.id": topic}
    producer = Producer(config)
    producer.init_transactions(DEADLINE_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, value, b"another", partition=0)
    producer.flush(DEADLINE_SECONDS)
    return producer
