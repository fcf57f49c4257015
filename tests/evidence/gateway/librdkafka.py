"""librdkafka, by confluent-kafka: it uses versions before error 89, and reports throttle times to a callback."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version

import confluent_kafka
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.evidence.gateway.ground import Ground, create_topics
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import Program
from tests.evidence.gateway.sides import Side, password_of
from tests.support.wire_client import WireClient

_TOPICS = {"rd-grown-a": 1, "rd-grown-b": 1, "rd-deleted-a": 11, "rd-deleted-b": 1}
_TOPICS |= {f"rd-{codec}": 1 for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
_SECONDS = 60
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Compression codecs, by their numbers in a batch's attributes."""
_CODEC_BITS = 7
_ATTRIBUTES = slice(21, 23)
_FETCH, _FETCH_VERSION = 1, 12
_RECORDS = 100


def _config(side: Side, user: str) -> dict:
    return {
        "bootstrap.servers": side.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password_of(user),
        "log_level": 2,
    }


class _Client:
    """An admin client that records its observations."""

    def __init__(self, side: Side, user: str, case: str) -> None:
        self._side = side
        self._case = case
        self._throttle: list[float] = []
        self.seen: list[Observation] = []
        throttle = {"throttle_cb": lambda event: self._throttle.append(event.throttle_time)}
        self.admin = AdminClient({**_config(side, user), **throttle})

    def observe(self, step: str, send: Callable[[], dict[str, Future]]) -> None:
        """Send a request for topics, and record the outcome of each."""
        sent = time.monotonic() * 1000
        said = []
        for name, future in sorted(send().items()):
            try:
                future.result(_SECONDS)
            except KafkaException as error:
                said.append(f"{name}: {error.args[0].code()} {error.args[0].str()}")
            else:
                said.append(f"{name}: ok")
        self._add(step, "; ".join(said), sent)

    def list(self, step: str) -> None:
        """List topics, and record the time of the answer."""
        sent = time.monotonic() * 1000
        self.admin.list_topics(timeout=_SECONDS)
        self._add(step, "answered", sent)

    def _add(self, step: str, seen: str, sent: float) -> None:
        received = time.monotonic() * 1000
        self.admin.poll(1)  # throttle_cb
        throttle = round(max(self._throttle, default=0.0) * 1000)
        self._throttle.clear()
        self.seen.append(Observation(self._case, step, self._side.plain(seen), sent, received, throttle))


def _play(on: Ground, side: Side, first: int) -> list[Observation]:
    plays: tuple[Callable[[str], list[Observation]], ...] = (
        lambda user: _create(side, user),
        lambda user: _grow(side, user),
        lambda user: _delete(side, user),
    )
    plays += (lambda user: _compress(on, side, user),)
    with ThreadPoolExecutor(len(plays)) as pool:
        found = pool.map(lambda number: plays[number](side.user(first + number)), range(len(plays)))
        return [each for some in found for each in some]


def _create(side: Side, user: str) -> list[Observation]:
    client = _Client(side, user, "create")
    client.list("connect")
    a, b = side.topic("rd-a"), side.topic("rd-b")
    client.observe("overdrawn by 8 s", lambda: client.admin.create_topics([NewTopic(a, 11, 1)]))
    client.observe(
        "in debt, with one that exists", lambda: client.admin.create_topics([NewTopic(b, 1), NewTopic(a, 1)])
    )
    client.list("another call of this client")
    return client.seen


def _grow(side: Side, user: str) -> list[Observation]:
    client = _Client(side, user, "grow")
    client.list("connect")
    a, b = side.topic("rd-grown-a"), side.topic("rd-grown-b")
    client.observe("overdrawn by 8 s", lambda: client.admin.create_partitions([NewPartitions(a, 12)]))
    client.observe("in debt", lambda: client.admin.create_partitions([NewPartitions(b, 3)]))
    return client.seen


def _delete(side: Side, user: str) -> list[Observation]:
    client = _Client(side, user, "delete")
    client.list("connect")
    a, b, none = (side.topic(f"rd-{each}") for each in ("deleted-a", "deleted-b", "none"))
    client.observe("overdrawn by 8 s", lambda: client.admin.delete_topics([a]))
    client.observe("in debt, with an unknown one", lambda: client.admin.delete_topics([b, none]))
    return client.seen


def _compress(on: Ground, side: Side, user: str) -> list[Observation]:
    """Produce records by each codec, and check how they are stored: librdkafka compresses only for some brokers."""
    seen = []
    for codec in _CODECS:
        topic = side.topic(f"rd-{codec}")
        sent = time.monotonic() * 1000
        producer = Producer({**_config(side, user), "compression.type": codec, "linger.ms": 100})
        for _ in range(_RECORDS):
            producer.produce(topic, b"x" * 100, partition=0)
        left = producer.flush(_SECONDS)
        received = time.monotonic() * 1000
        stored = _CODECS[_stored_attributes(on, topic) & _CODEC_BITS]
        seen.append(Observation("produce", codec, f"{left} not delivered, stored as {stored}", sent, received))
    return seen


def _stored_attributes(on: Ground, topic: str) -> int:
    """Return the attributes of the first batch of a topic's partition 0."""
    (broker,) = on.settings.kafka.connection.addresses
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    message = {
        "replicaId": -1,
        "maxWaitMs": 1000,
        "minBytes": 1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    with WireClient(broker, on.protocol, "fetch") as client:
        answer = client.call(_FETCH, _FETCH_VERSION, message)
    records = answer["responses"][0]["partitions"][0]["records"]
    return int.from_bytes(records[_ATTRIBUTES])


LIBRDKAFKA = Program(
    name="librdkafka",
    about="by confluent-kafka; it uses versions before error 89, and waits only while it is muted",
    users=4,
    play=_play,
    prepare=lambda on: create_topics(on, {side.topic(name): n for side in on.sides for name, n in _TOPICS.items()}),
    version=lambda: f"librdkafka {confluent_kafka.libversion()[0]} (confluent-kafka {version('confluent-kafka')})",
)
