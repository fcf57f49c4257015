"""A large produce and a large fetch: one request, one answer."""

import struct
import time
from collections.abc import Sequence
from functools import reduce
from statistics import median
from typing import Any

from quota.errors import MutationQuotaError
from quota.wire.api_keys import ApiKey
from tests.evidence.gateway.cost.calls import Request, Row
from tests.evidence.gateway.cost.routes import Route
from tests.evidence.gateway.cost.size import Size

BATCH_BYTES = 1_000_000
"""Size of the batch of each partition; 90 of them are below Kafka's limit of 100 MB for a request."""

_PRODUCE_VERSION, _FETCH_VERSION = 9, 12
_TIMEOUT_MS = 60_000
_POLYNOMIAL = 0x82F63B78  # CRC-32C


def transfers(routes: Sequence[Route], topic: str, size: Size) -> list[Row]:
    """Measure the produce and the fetch over each route in turns; `topic` has a partition for each batch."""
    produce = Request("produce", ApiKey.PRODUCE, _PRODUCE_VERSION, _produce(topic, size.batches))
    fetch = Request("fetch", ApiKey.FETCH, _FETCH_VERSION, _fetch(topic, size.batches))
    moved = size.batches * BATCH_BYTES
    return [row for request in (produce, fetch) for row in _transfers(routes, request, moved, size.transfers)]


def _transfers(routes: Sequence[Route], request: Request, size: int, rounds: int) -> list[Row]:
    runs: list[list[tuple[float, float, int]]] = [[] for _ in routes]
    for number in range(rounds + 1):
        for route, own in zip(routes, runs, strict=True):
            run = _transfer(route, request, size)
            if number:  # the first one warms up
                own.append(run)
    return [
        {
            "transfer": request.name,
            "megabytes": size / 1e6,
            "route": route.name,
            "megabytes_per_second": size / median(took for took, _, _ in own) / 1e6,
            "cpu_ms_per_megabyte": median(cpu for _, cpu, _ in own) / size * 1e9 if route.meter else None,
            "memory_growth_mb": max(grown for *_, grown in own) / 1e6 if route.meter else None,
        }
        for route, own in zip(routes, runs, strict=True)
    ]


def _transfer(route: Route, request: Request, size: int) -> tuple[float, float, int]:
    """Return the time, the gateway's processor time and the increase of its memory."""
    memory = 0
    with route.connect() as client:
        frame = request.frame(client)
        if route.meter:
            memory = route.meter.memory()
            route.meter.forget_peak()
        cpu, begun = route.cpu_seconds(), time.perf_counter()
        client.socket.sendall(frame)
        answer = client.receive()
        took = time.perf_counter() - begun
    if max(len(frame), len(answer)) < size:
        raise MutationQuotaError(f"{route.name}: {request.name} has moved only {len(answer):,} bytes")
    return took, route.cpu_seconds() - cpu, route.meter.peak() - memory if route.meter else 0


def _produce(topic: str, batches: int) -> dict[str, Any]:
    batch = _batch()
    partitions = [{"index": number, "records": batch} for number in range(batches)]
    topics = [{"name": topic, "partitionData": partitions}]
    return {"transactionalId": None, "acks": 1, "timeoutMs": _TIMEOUT_MS, "topicData": topics}


def _fetch(topic: str, batches: int) -> dict[str, Any]:
    partitions = [
        {"partition": number, "fetchOffset": 0, "partitionMaxBytes": BATCH_BYTES + 100} for number in range(batches)
    ]
    topics = [{"topic": topic, "partitions": partitions}]
    return {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 2 * batches * BATCH_BYTES, "topics": topics}


def _batch() -> bytes:
    """Return a batch (version 2) of one record of `BATCH_BYTES` of zeros."""
    # attributes, timestamp, offset, key, value, headers
    body = b"\0" + b"".join(map(_varint, (0, 0, -1, BATCH_BYTES))) + bytes(BATCH_BYTES) + _varint(0)
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
