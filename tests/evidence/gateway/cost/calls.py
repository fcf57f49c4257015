"""Forwarded calls: one at a time, and many at once."""

import selectors
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quota.wire.api_keys import ApiKey
from tests.evidence.gateway.cost.ground import Ground
from tests.evidence.percentiles import percentile
from tests.support.wire_client import WireClient

CONNECTIONS = 4
"""Number of connections of `throughput`."""

_LENGTH = struct.Struct(">i")
_CHUNK = 1 << 18
_WARM_UP = 200


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose call is measured."""

    name: str
    key: int
    version: int
    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of the times of a call over one route, in seconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Throughput:
    """Calls per second over one route."""

    per_second: float
    cpu_seconds: float | None
    """Processor time of the gateway for one call; None for a direct connection."""


def requests(topic: str) -> tuple[Request, ...]:
    """Return the requests whose calls are measured, for a topic that exists."""
    asked = {"name": topic, "partitions": [{"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": -1}]}
    return (
        Request("ApiVersions", ApiKey.API_VERSIONS, 4, {"clientSoftwareName": "c", "clientSoftwareVersion": "1"}),
        Request("Metadata of a topic", ApiKey.METADATA, 12, {"topics": [{"name": topic, "topicId": bytes(16)}]}),
        Request("ListOffsets", ApiKey.LIST_OFFSETS, 7, {"replicaId": -1, "topics": [asked]}),
    )


def latencies(ground: Ground, request: Request, calls: int) -> dict[str, Latency]:
    """Measure a call over each route, one call at a time and the routes in turns."""
    clients = {route: ground.connect(port) for route, port in ground.routes.items()}
    frames = {route: client.request(request.key, request.version, request.message) for route, client in clients.items()}
    times: dict[str, list[float]] = {route: [] for route in clients}
    for route, client in clients.items():
        for _ in range(_WARM_UP):
            client.seconds(frames[route])
    for _ in range(calls):
        for route, client in clients.items():
            times[route].append(client.seconds(frames[route]))
    for client in clients.values():
        client.close()
    return {route: Latency(percentile(each, 0.5), percentile(each, 0.99)) for route, each in times.items()}


def throughput(ground: Ground, request: Request, in_flight: int, rounds: int, seconds: float) -> dict[str, Throughput]:
    """Measure the calls per second over each route, on `CONNECTIONS` connections with `in_flight` calls each."""
    done = dict.fromkeys(ground.routes, 0)
    cpu = dict.fromkeys(ground.routes, 0.0)
    elapsed = dict.fromkeys(ground.routes, 0.0)
    for _ in range(rounds):
        for route, port in ground.routes.items():
            gateway = ground.gateways.get(route)
            before = gateway.cpu_seconds() if gateway else 0.0
            count, took = _rush([ground.connect(port) for _ in range(CONNECTIONS)], request, in_flight, seconds)
            done[route] += count
            elapsed[route] += took
            cpu[route] += (gateway.cpu_seconds() if gateway else 0.0) - before
    return {
        route: Throughput(done[route] / elapsed[route], cpu[route] / done[route] if route in ground.gateways else None)
        for route in ground.routes
    }


def _rush(clients: list[WireClient], request: Request, in_flight: int, seconds: float) -> tuple[int, float]:
    """Keep `in_flight` calls on each connection for `seconds`; return the number of answers, and the time taken."""
    selector = selectors.DefaultSelector()
    for client in clients:
        client.socket.settimeout(None)
        selector.register(client.socket, selectors.EVENT_READ, _Answers())
    frame = clients[0].request(request.key, request.version, request.message)
    begun = now = time.perf_counter()
    for client in clients:
        client.socket.sendall(frame * in_flight)
    done = 0
    while now < begun + seconds:
        for key, _ in selector.select():
            count = key.data.add(key.fileobj.recv(_CHUNK))
            if count:
                done += count
                key.fileobj.sendall(frame * count)
        now = time.perf_counter()
    for client in clients:
        client.close()
    selector.close()
    return done, now - begun


class _Answers:
    """Counts the answers in a stream of bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> int:
        """Add received bytes; return the number of answers that end in them."""
        if not data:
            raise ConnectionError("the connection was closed")
        data = self._rest + data
        at = count = 0
        while len(data) >= at + _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
            if end > len(data):
                break
            at, count = end, count + 1
        self._rest = data[at:]
        return count
