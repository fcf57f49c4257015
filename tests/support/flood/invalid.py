"""Invalid records of many kinds, sent as fast as possible."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from confluent_kafka import Producer

from tests.support.clients import QUIET

Pair = tuple[bytes | None, bytes | None]
"""Key and value."""

REQUEST = (
    b'{"request_id": "flood", "user": "mallory", "operation": "CREATE_TOPICS", "api_version": 7, '
    b'"topics": [{"name": "t", "partitions": 1}]}'
)
MEGABYTE = 1024 * 1024
_VARIANTS = 32
_QUEUED_BYTES = 128 * MEGABYTE


def _half(chance: random.Random) -> bytes:
    return REQUEST[: chance.randrange(1, len(REQUEST))]


def _brackets(chance: random.Random) -> bytes:
    return chance.choice([b"[", b'{"a":']) * chance.randrange(101, 500)


def _wrong(chance: random.Random) -> bytes:
    wrong = [(b'"CREATE_TOPICS"', b'"TRUNCATE"'), (b": 1}", b": -1}"), (b'"mallory"', b"7"), (b": 7", b': "seven"')]
    return REQUEST.replace(*chance.choice(wrong))


def _text(size: int) -> bytes:
    """Return a request of about `size` bytes whose operation is invalid."""
    return REQUEST.replace(b'"CREATE_TOPICS"', b'"' + b"x" * size + b'"')


KINDS: dict[str, Callable[[random.Random], Pair]] = {
    "random bytes": lambda chance: (None, chance.randbytes(chance.randrange(1, 400))),
    "half JSON": lambda chance: (b"mallory", _half(chance)),
    "nested brackets": lambda chance: (b"mallory", _brackets(chance)),
    "wrong types": lambda chance: (b"mallory", _wrong(chance)),
    "null values": lambda _: (b"mallory", None),
    "huge keys": lambda chance: (chance.randbytes(20_000), REQUEST[:-1]),
    "100 KB": lambda _: (None, _text(100_000)),
    "1 MB of text": lambda _: (None, _text(MEGABYTE - 2000)),
    "1 MB of zeros": lambda _: (None, bytes(MEGABYTE - 2000)),
    "over the limit": lambda _: (None, _text(MEGABYTE - 100)),
}
"""Functions that return a record, by the kind of the record."""

SMALL = ("random bytes", "half JSON", "nested brackets", "wrong types", "null values")


def records(kinds: Sequence[str], seed: int = 1) -> Iterator[Pair]:
    """Yield records of these kinds in turns, endlessly."""
    chance = random.Random(seed)
    return cycle([KINDS[kind](chance) for _ in range(_VARIANTS) for kind in kinds])


@dataclass(frozen=True, slots=True)
class Pour:
    """Invalid records to send, of these kinds in turns."""

    kinds: tuple[str, ...]
    count: int
    compression: str = "none"


def pour(servers: str, topic: str, what: Pour) -> None:
    """Send records as fast as possible."""
    failed: list[object] = []
    producer = Producer(
        {
            **QUIET,
            "bootstrap.servers": servers,
            "message.max.bytes": 2 * MEGABYTE,
            "queue.buffering.max.kbytes": _QUEUED_BYTES // 1024,
            "linger.ms": 5,
            "compression.type": what.compression,
            "on_delivery": lambda error, _: failed.append(error) if error else None,
        }
    )
    for key, value in islice(records(what.kinds), what.count):
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(120)
    if failed or left:
        raise RuntimeError(f"{len(failed)} records were refused, {left} not sent: {failed[:1]}")
