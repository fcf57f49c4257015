"""A produce and a fetch of 90 MB: one request, one answer."""

import struct
import time
from dataclasses import dataclass
from functools import reduce
from statistics import median

from quota.wire.api_keys import ApiKey
from tests.evidence.gateway.cost.ground import Ground

BATCHES = 90
"""Partitions, each with one batch of 1 MB in the request: below Kafka's limit of 100 MB."""

_BATCH_BYTES = 1_000_000
_PRODUCE_VERSION, _FETCH_VERSION = 9, 12
_TIMEOUT_MS = 60_000
_POLYNOMIAL = 0x82F63B78  # CRC-32C


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer over one route."""

    bytes: int
    seconds: float
    """Median time from the first byte of the request to the last one of the answer."""
    cpu_seconds: float | None
    """Processor time of the gateway for one transfer; None for a direct connection."""
    peak: int | None
    """The largest increase of the gateway's resident memory in bytes; None for a direct connection."""

    @property
    def megabytes_per_second(self) -> float:
        """MB/s, with 10^6 bytes in a MB."""
        return self.bytes / self.seconds / 1e6


def transfers(ground: Ground, topic: str, rounds: int) -> dict[str, dict[str, Transfer]]:
    """Measure the produce and the fetch over each route in turns; `topic` has `BATCHES` partitions."""
    return {
        "produce": _transfers(ground, rounds, ApiKey.PRODUCE, _PRODUCE_VERSION, _produce(topic)),
        "fetch": _transfers(ground, rounds, ApiKey.FETCH, _FETCH_VERSION, _fetch(topic)),
    }


def _transfers(ground: Ground, rounds: int, key: int, version: int, message: dict) -> dict[str, Transfer]:
    times: dict[str, list[float]] = {route: [] for route in ground.routes}
    cpu: dict[str, list[float]] = {route: [] for route in ground.routes}
    peaks: dict[str, list[int]] = {route: [] for route in ground.routes}
    size = BATCHES * _BATCH_BYTES
    for number in range(rounds + 1):  # the first one warms up
        for route, port in ground.routes.items():
            gateway = ground.gateways.get(route)
            with ground.connect(port) as client:
                frame = client.request(key, version, message)
                before = (gateway.cpu_seconds(), gateway.memory()) if gateway else (0.0, 0)
                if gateway:
                    gateway.forget_peak()
                begun = time.perf_counter()
                client.socket.sendall(frame)
                answer = client.receive()
                took = time.perf_counter() - begun
                if len(frame) < size and len(answer) < size:
                    raise ConnectionError(f"{route}: only {len(answer):,} bytes came")
            if number:
                times[route].append(took)
                if gateway:
                    cpu[route].append(gateway.cpu_seconds() - before[0])
                    peaks[route].append(gateway.peak() - before[1])
    return {
        route: Transfer(size, median(each), median(cpu[route]) if cpu[route] else None, max(peaks[route], default=None))
        for route, each in times.items()
    }


def _produce(topic: str) -> dict:
    batch = _batch()
    partitions = [{"index": number, "records": batch} for number in range(BATCHES)]
    return {
        "transactionalId": None,
        "acks": 1,
        "timeoutMs": _TIMEOUT_MS,
        "topicData": [{"name": topic, "partitionData": partitions}],
    }


def _fetch(topic: str) -> dict:
    partitions = [
        {"partition": number, "fetchOffset": 0, "partitionMaxBytes": _BATCH_BYTES + 100} for number in range(BATCHES)
    ]
    return {
        "maxWaitMs": 0,
        "minBytes": 0,
        "maxBytes": 2 * BATCHES * _BATCH_BYTES,
        "topics": [{"topic": topic, "partitions": partitions}],
    }


def _batch() -> bytes:
    """Return a batch (version 2) of one record of `_BATCH_BYTES` of zeros."""
    # attributes, timestamp, offset, key, value, headers
    body = b"\0" + b"".join(map(_varint, (0, 0, -1, _BATCH_BYTES))) + bytes(_BATCH_BYTES) + _varint(0)
    record = _varint(len(body)) + body
    # attributes, last offset delta, two timestamps, producer id, epoch and sequence, number of records
    checked = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, _crc32c(checked)) + checked


def _varint(value: int) -> bytes:
    """Return a number in zigzag encoding."""
    rest, written = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _crc32c(data: bytes) -> int:
    table = [reduce(lambda crc, _: crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0), range(8), byte) for byte in range(256)]
    return reduce(lambda crc, byte: crc >> 8 ^ table[(crc ^ byte) & 0xFF], data, 0xFFFFFFFF) ^ 0xFFFFFFFF
