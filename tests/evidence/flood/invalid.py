"""Invalid records, and a process that sends them at a rate or as fast as possible."""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

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
    """Invalid records to send: a maximum number and a maximum of seconds, and a rate (1/s), or None for full speed."""

    kinds: tuple[str, ...]
    count: int
    seconds: float = 600.0
    rate: float | None = None
    compression: str = "none"


@dataclass(frozen=True, slots=True)
class Poured:
    """The invalid records that the broker acknowledged."""

    records: int
    size: int
    seconds: float


def pour(servers: str, topic: str, what: Pour) -> Poured:
    """Send records until the maximum number or time is reached.

    Raises:
        RuntimeError: The broker did not acknowledge a record.
    """
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
    began, sent, size = time.monotonic(), 0, 0
    for key, value in records(what.kinds):
        elapsed = time.monotonic() - began
        if sent >= what.count or elapsed >= what.seconds:
            break
        if what.rate is not None and sent >= elapsed * what.rate:
            producer.poll(0.002)
            continue
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.01)
        sent += 1
        size += len(key or b"") + len(value or b"")
        if not sent % 256:
            producer.poll(0)
    left = producer.flush(120)
    if failed or left:
        raise RuntimeError(f"{len(failed)} records were refused, {left} not sent: {failed[:1]}")
    return Poured(sent, size, time.monotonic() - began)


def main() -> None:
    """Send, and print the number of records, bytes and seconds."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.flood.invalid", description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("kinds", help="of records, separated by commas")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--compression", default="none")
    given = parser.parse_args()
    what = Pour(tuple(given.kinds.split(",")), given.count, given.seconds, given.rate, given.compression)
    poured = pour(given.servers, given.topic, what)
    sys.stdout.write(f"{poured.records} {poured.size} {poured.seconds}\n")


if __name__ == "__main__":
    main()
