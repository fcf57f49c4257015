"""A flood of invalid records next to valid requests."""

import random
import re
from collections import Counter

from confluent_kafka import Producer

from jobs.enforce.query import start_enforce
from jobs.storage.files import DeploymentSession
from quota.kafka.reading import read_topic
from quota.kafka.topics.preparation import prepare_topics
from tests.support.factories import request_json
from tests.support.topics import QUIET, end_offsets

REQUEST = (
    b'{"request_id": "flood", "user": "mallory", "operation": "CREATE_TOPICS", "api_version": 7, '
    b'"topics": [{"name": "t", "partitions": 1}]}'
)
MEGABYTE = 1024 * 1024
WRONG = [(b'"CREATE_TOPICS"', b'"TRUNCATE"'), (b": 1}", b": -1}"), (b'"mallory"', b"7"), (b": 7", b': "seven"')]


def text(size):
    """Return a request of about `size` bytes whose operation is invalid."""
    return REQUEST.replace(b'"CREATE_TOPICS"', b'"' + b"x" * size + b'"')


KINDS = {
    "random bytes": lambda chance: (None, chance.randbytes(chance.randrange(1, 400))),
    "half JSON": lambda chance: (b"mallory", REQUEST[: chance.randrange(1, len(REQUEST))]),
    "nested brackets": lambda chance: (b"mallory", chance.choice([b"[", b'{"a":']) * chance.randrange(101, 500)),
    "wrong types": lambda chance: (b"mallory", REQUEST.replace(*chance.choice(WRONG))),
    "null values": lambda _: (b"mallory", None),
    "huge keys": lambda chance: (chance.randbytes(20_000), REQUEST[:-1]),
    "100 KB": lambda _: (None, text(100_000)),
    "1 MB of text": lambda _: (None, text(MEGABYTE - 2000)),
    "1 MB of zeros": lambda _: (None, bytes(MEGABYTE - 2000)),
    "over the limit": lambda _: (None, text(MEGABYTE - 100)),
}
"""Functions that return key and value of a record, by the kind of the record."""

FLOODS = [
    (800, {}, ("random bytes", "half JSON", "nested brackets", "wrong types", "null values")),
    (50, {}, ("huge keys", "100 KB")),
    (10, {}, ("1 MB of text", "1 MB of zeros", "over the limit")),
    (30, {"compression.type": "zstd"}, ("1 MB of text",)),
]
"""Records of each kind, settings of their producer, and their kinds, which come in turns."""


def send(settings, records, **config):
    """Send pairs of key and value as fast as possible, and return their positions."""
    sent = set()

    def delivered(error, message):
        assert error is None, error
        sent.add((message.partition(), message.offset()))

    own = {"message.max.bytes": 2 * MEGABYTE, "queue.buffering.max.kbytes": 128 * 1024, "on_delivery": delivered}
    producer = Producer({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers, **own, **config})
    for key, value in records:
        producer.produce(settings.topics.requests, value, key)
        producer.poll(0)
    assert producer.flush(120) == 0
    return sent


def answered(settings, topic):
    """Return the positions of requests that a topic answers, each with its number of answers."""
    # The source is near the end of an answer; the fields before it may quote anything.
    source = re.compile(rb'.*"source":\{"topic":"[^"]*","partition":(\d+),"offset":(\d+)\}', re.DOTALL)
    values = (message.value() for message in read_topic(settings.kafka.connection, topic, 30))
    return Counter(tuple(map(int, source.match(value).groups())) for value in values)


def test_a_flood_of_invalid_records_loses_and_duplicates_nothing(spark, deployment):
    """Valid requests before, between and after each kind are decided, and each invalid record is a dead letter."""
    prepare_topics(deployment)
    chance, good, bad = random.Random(1), set(), set()
    for count, config, kinds in FLOODS:
        good |= send(deployment, [(b"alice", request_json(1))] * 10)
        bad |= send(deployment, [KINDS[kind](chance) for _ in range(count) for kind in kinds], **config)
    good |= send(deployment, [(b"alice", request_json(1))] * 10)
    query = start_enforce(DeploymentSession.on(spark, deployment), once=True)
    assert query.awaitTermination(240)
    assert query.exception() is None

    assert sum(end_offsets(deployment, deployment.topics.requests).values()) == 50 + 4160
    assert (len(good), len(bad)) == (50, 4160)
    assert answered(deployment, deployment.topics.decisions) == Counter(good)
    assert answered(deployment, deployment.topics.dead_letters) == Counter(bad)
