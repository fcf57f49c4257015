"""Forwarded calls: one at a time, many at once, and a large Metadata response."""

import selectors
import time
from collections.abc import Sequence
from statistics import median

from quota.errors import MutationQuotaError
from quota.wire.protocol import ApiKey
from tests.evidence.gateway.cost.routes import DIRECT, Route, Row, take_turns
from tests.evidence.gateway.cost.size import Size
from tests.evidence.gateway.requests import METADATA, METADATA_VERSION, Request, create, metadata
from tests.evidence.percentiles import percentile
from tests.support.waiting import until
from tests.support.wire.requests import topic as new_topic
from tests.support.wire_client import WireClient

CONNECTIONS = 4
"""Number of connections of `throughput`."""
IN_FLIGHT = (1, 64)
"""Numbers of calls at once on each of them."""
PARTITIONS = 12
"""Partitions of each topic of the large response."""

_LENGTH = 4
"""Bytes before a response with its length."""
_CHUNK = 1 << 18
_TIMEOUT_MS = 120_000
_AT_ONCE = 50


def requests(topic: str) -> tuple[Request, ...]:
    """Return the requests whose calls are measured, for a topic that exists."""
    asked = {"name": topic, "partitions": [{"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": -1}]}
    return (
        Request("ApiVersions", ApiKey.API_VERSIONS, 4, {"clientSoftwareName": "c", "clientSoftwareVersion": "1"}),
        metadata("Metadata of a topic", topic),
        Request("ListOffsets", ApiKey.LIST_OFFSETS, 7, {"replicaId": -1, "topics": [asked]}),
    )


def latencies(routes: Sequence[Route], request: Request, size: Size) -> list[Row]:
    """Measure a call over each route, one call at a time and the routes in turns."""
    for route in routes:
        route.check(request)
    clients = [route.connect() for route in routes]
    frames = [request.frame(client) for client in clients]
    times: list[list[float]] = [[] for _ in routes]
    for number in range(size.warm_up + size.calls):
        for client, frame, own in zip(clients, frames, times, strict=True):
            took = client.seconds(frame)
            if number >= size.warm_up:
                own.append(took * 1e3)
    for client in clients:
        client.close()
    p50 = [percentile(own, 0.5) for own in times]
    return [
        {
            "call": request.name,
            "route": route.name,
            "p50_ms": middle,
            "p99_ms": percentile(own, 0.99),
            "above_ms": None if route.name == DIRECT else middle - p50[0],
        }
        for route, own, middle in zip(routes, times, p50, strict=True)
    ]


def throughput(routes: Sequence[Route], request: Request, size: Size) -> list[Row]:
    """Measure the calls per second over each route, on `CONNECTIONS` connections with calls in flight on each."""
    rows = []
    for in_flight in IN_FLIGHT:
        totals = [[0.0, 0.0, 0.0] for _ in routes]
        for _ in range(size.rounds):
            for route, total in zip(routes, totals, strict=True):
                before = route.cpu_seconds()
                count, took = _rush([route.connect() for _ in range(CONNECTIONS)], request, in_flight, size.seconds)
                measured = (count, took, route.cpu_seconds() - before)
                total[:] = (sum(pair) for pair in zip(total, measured, strict=True))
        rows += [
            {
                "call": request.name,
                "route": route.name,
                "in_flight": in_flight,
                "per_second": count / took,
                "cpu_us": cpu / count * 1e6 if route.meter else None,
            }
            for route, (count, took, cpu) in zip(routes, totals, strict=True)
        ]
    return rows


def _rush(clients: list[WireClient], request: Request, in_flight: int, seconds: float) -> tuple[float, float]:
    """Keep `in_flight` calls on each connection for `seconds`; return the number of answers, and the time taken."""
    selector = selectors.DefaultSelector()
    frame = request.frame(clients[0])
    for client in clients:
        client.socket.sendall(frame)
        size = _LENGTH + len(client.receive())  # all answers have this size
        client.socket.settimeout(None)
        selector.register(client.socket, selectors.EVENT_READ)
    received = dict.fromkeys((client.socket for client in clients), 0)
    begun = now = time.perf_counter()
    for client in clients:
        client.socket.sendall(frame * in_flight)
    while now < begun + seconds:
        for key, _ in selector.select():
            data = key.fileobj.recv(_CHUNK)
            if not data:
                raise MutationQuotaError(f"{request.name}: the connection was closed")
            before = received[key.fileobj] // size
            received[key.fileobj] += len(data)
            key.fileobj.sendall(frame * (received[key.fileobj] // size - before))
        now = time.perf_counter()
    for client in clients:
        client.close()
    selector.close()
    return sum(count // size for count in received.values()), now - begun


def listings(routes: Sequence[Route], size: Size) -> list[Row]:
    """Measure a call for all topics over each route in turns; they are made before."""
    request = Request("Metadata", METADATA, METADATA_VERSION, {"topics": None})
    names = [f"listed-{number}" for number in range(size.topics)]
    with routes[0].connect() as client:
        for first in range(0, size.topics, _AT_ONCE):
            topics = [new_topic(name, PARTITIONS) for name in names[first : first + _AT_ONCE]]
            create("listed", 7, *topics).with_fields(timeoutMs=_TIMEOUT_MS).call(client)

        def are_listed() -> bool:
            return {*names} <= {topic["name"] for topic in request.call(client)["topics"]}

        until(are_listed, _TIMEOUT_MS / 1000)
    return [
        {
            "route": route.name,
            "answer_kb": turns[-1].received / 1e3,
            "p50_ms": median(turn.took for turn in turns) * 1e3,
            "cpu_ms": median(turn.cpu for turn in turns) * 1e3 if route.meter else None,
        }
        for route, turns in take_turns(routes, request, size.listings)
    ]
