"""librdkafka, by confluent-kafka: its versions are from before error 89, and it compresses only for some brokers."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from importlib.metadata import version
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.evidence.gateway.conformance.program import CONNECT, Observation, Program, on_both
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
