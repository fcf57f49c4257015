"""A backlog of requests of many users."""

from confluent_kafka import Producer

from quota.settings import Settings
from tests.support.topics import QUIET

_VALUE = (
    '{"request_id":"r-%d","user":"user-%d","client_id":"app","operation":"CREATE_TOPICS","api_version":6,'
    '"topics":[{"name":"topic-%d","partitions":1}]}'
)
_TIMEOUT_SECONDS = 120.0


def fill(settings: Settings, count: int, users: int) -> None:
    """Produce `count` requests, each for a topic of one partition, of users in turn."""
    own = {"linger.ms": 20, "batch.size": 1_000_000, "queue.buffering.max.messages": 200_000}
    producer = Producer({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers, **own})
    topic = settings.topics.requests
    for number in range(count):
        user = number % users
        value = (_VALUE % (number, user, number)).encode()
        while True:
            try:
                producer.produce(topic, value, b"user-%d" % user)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(_TIMEOUT_SECONDS):
        raise TimeoutError(f"topic {topic}: the broker did not take {count} requests in {_TIMEOUT_SECONDS:.0f} s")
