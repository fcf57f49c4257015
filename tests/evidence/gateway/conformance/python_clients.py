"""Python clients: librdkafka, whose versions are from before error 89, and kafka-python, which raises it."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.evidence.gateway.conformance.program import CONNECT, Observation, Observations, Program, Unavailable, on_both
from tests.evidence.gateway.conformance.sides import Side, Sides
from tests.evidence.gateway.ground import password_of

_SECONDS = 60
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Compression codecs, by their numbers in a batch's attributes."""
_CODEC_BITS = 7
_ATTRIBUTES = slice(21, 23)
_RECORDS = 100
_OVERDRAWN, _IN_DEBT, _READY = "overdrawn by 8", "in debt", "when the client is ready again"


def _observe(side: Side, case: str, step: str, send: Callable[[], str], throttle: Callable[[str], Any]) -> Observation:
    sent = time.monotonic() * 1000
    seen = send()
    received = time.monotonic() * 1000
    return Observation(
        case,
        step,
        side.plain(re.sub(r"throttle_time_ms=[0-9]+|UUID\('[-0-9a-f]+'\)", "...", seen)),
        sent,
        received,
        throttle(seen),
    )


def _librdkafka(pair: Sides, side: Side) -> list[Callable[[str], list[Observation]]]:
    a, b, grown_a, grown_b, deleted_a, deleted_b, none = (
        side.topic(f"rd-{name}") for name in ("a", "b", "grown-a", "grown-b", "deleted-a", "deleted-b", "none")
    )
    cases = {
        "create": {
            _OVERDRAWN: lambda admin: admin.create_topics([NewTopic(a, 11, 1)]),
            "in debt, with one that exists": lambda admin: admin.create_topics([NewTopic(b, 1), NewTopic(a, 1)]),
            "another call of this client": None,
        },
        "grow": {
            _OVERDRAWN: lambda admin: admin.create_partitions([NewPartitions(grown_a, 12)]),
            _IN_DEBT: lambda admin: admin.create_partitions([NewPartitions(grown_b, 3)]),
        },
        "delete": {
            _OVERDRAWN: lambda admin: admin.delete_topics([deleted_a]),
            "in debt, with an unknown one": lambda admin: admin.delete_topics([deleted_b, none]),
        },
    }
    played = [partial(_librdkafka_case, side, case, {CONNECT: None, **steps}) for case, steps in cases.items()]
    return [*played, lambda user: list(_compressed(pair, side, user))]


def _librdkafka_case(side: Side, case: str, steps: dict[str, Any], user: str) -> list[Observation]:
    """Send requests, or list topics where a step has none; throttle times are reported to a callback."""
    told: list[float] = []
    admin = AdminClient({**_config(side, user), "throttle_cb": lambda event: told.append(event.throttle_time)})

    def throttle(_: str) -> int:
        admin.poll(1)  # throttle_cb
        longest = round(max(told, default=0.0) * 1000)
        told.clear()
        return longest

    def send(request: Any) -> str:
        if request is None:
            admin.list_topics(timeout=_SECONDS)
            return "answered"
        return "; ".join(f"{name}: {_outcome(future)}" for name, future in sorted(request(admin).items()))

    return [_observe(side, case, step, partial(send, request), throttle) for step, request in steps.items()]


def _outcome(future: Future) -> str:
    try:
        future.result(_SECONDS)
    except KafkaException as error:
        return f"{error.args[0].code()} {error.args[0].str()}"
    return "ok"


def _config(side: Side, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": side.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password_of(user),
        "log_level": 2,
    }


def _compressed(pair: Sides, side: Side, user: str) -> Iterator[Observation]:
    """Produce records by each codec, and check how they are stored: librdkafka compresses only for some brokers."""
    for codec in _CODECS:
        topic = side.topic(f"rd-{codec}")
        sent = time.monotonic() * 1000
        producer = Producer({**_config(side, user), "compression.type": codec, "linger.ms": 100})
        for _ in range(_RECORDS):
            producer.produce(topic, b"x" * 100, partition=0)
        left = producer.flush(_SECONDS)
        received = time.monotonic() * 1000
        stored = _CODECS[int.from_bytes(pair.ground.stored_records(topic)[_ATTRIBUTES]) & _CODEC_BITS]
        yield Observation("produce", codec, f"{left} not delivered, stored as {stored}", sent, received)


def _kafka_python(_: Sides, side: Side) -> list[Callable[[str], list[Observation]]]:
    a, b, grown_a, grown_b, deleted_a, deleted_b, none = (
        side.topic(f"py-{name}") for name in ("a", "b", "grown-a", "grown-b", "deleted-a", "deleted-b", "none")
    )
    cases = {
        "create": {
            _OVERDRAWN: lambda admin: admin.create_topics({a: {"num_partitions": 11}}),
            _IN_DEBT: lambda admin: admin.create_topics({b: {"num_partitions": 1}}),
            "another call of this client": lambda admin: admin.describe_topics([a]),
            _READY: lambda admin: admin.create_topics({b: {"num_partitions": 1}}),
            "exists": lambda admin: admin.create_topics({a: {"num_partitions": 1}}),
        },
        "grow": {
            _OVERDRAWN: lambda admin: admin.create_partitions({grown_a: 12}),
            _IN_DEBT: lambda admin: admin.create_partitions({grown_b: 2}),
        },
        "delete": {
            _OVERDRAWN: lambda admin: admin.delete_topics([deleted_a]),
            _IN_DEBT: lambda admin: admin.delete_topics([deleted_b]),
            _READY: lambda admin: admin.delete_topics([none]),
        },
    }
    return [partial(_kafka_python_case, side, case, steps) for case, steps in cases.items()]


def _kafka_python_case(side: Side, case: str, steps: dict[str, Callable[[Any], Any]], user: str) -> list[Observation]:
    from kafka.admin import KafkaAdminClient  # noqa: PLC0415 it may be missing
    from kafka.errors import KafkaError, NodeNotReadyError  # noqa: PLC0415

    admin = KafkaAdminClient(
        bootstrap_servers=side.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=password_of(user),
    )

    def send(step: str) -> str:
        """Send a request; the client is not ready until its throttle time is over."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                steps[step](admin)
            except NodeNotReadyError as error:
                if step != _READY or time.monotonic() > deadline:
                    return f"{type(error).__name__}: {error}"
                time.sleep(0.05)
            except KafkaError as error:
                return f"{type(error).__name__}: {error}"
            else:
                return "ok"

    def throttle(seen: str) -> int | None:
        match = re.search(r"throttle_time_ms=([0-9]+)", seen)
        return int(match[1]) if match else None

    try:
        return [_observe(side, case, step, partial(send, step), throttle) for step in steps]
    finally:
        admin.close()


def _play_kafka_python(pair: Sides, first: int) -> Observations:
    if find_spec("kafka") is None:
        raise Unavailable("kafka-python is not installed; `make setup` does it")
    return on_both(_kafka_python)(pair, first)


LIBRDKAFKA = Program(
    "librdkafka",
    users=4,
    play=on_both(_librdkafka),
    topics={
        "rd-grown-a": 1,
        "rd-grown-b": 1,
        "rd-deleted-a": 11,
        "rd-deleted-b": 1,
        **{f"rd-{codec}": 1 for codec in _CODECS},
    },
    version=lambda: f"{confluent_kafka.libversion()[0]} (confluent-kafka {version('confluent-kafka')})",
)

KAFKA_PYTHON = Program(
    "kafka-python",
    users=3,
    play=_play_kafka_python,
    topics={"py-grown-a": 1, "py-grown-b": 1, "py-deleted-a": 11, "py-deleted-b": 1},
    version=lambda: version("kafka-python"),
)
