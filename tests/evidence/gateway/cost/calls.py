"""Forwarded calls, one at a time, and a call among connections that are open and idle."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median

from quota.wire.protocol import ApiKey
from tests.evidence.gateway.cost.routes import DIRECT, Meter, Route, Row
from tests.evidence.gateway.cost.size import Size
from tests.evidence.gateway.ground import ADMIN, password_of
from tests.evidence.gateway.requests import Request, metadata
from tests.evidence.percentiles import percentile
from tests.support.wire_client import WireClient

_AT_ONCE = 50
"""Number of clients that connect before the first of them sends anything."""
_SETTLED_SECONDS = 0.2
"""The gateway is settled when it takes no processor time for so long."""
_SETTLE_SECONDS = 10.0


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


def idle_connections(route: Route, request: Request, size: Size, *, authenticates: bool = False) -> Row:
    """Return the cost of connections through a gateway that are idle, and the median time of a call."""
    meter, count = route.meter, size.connections
    with _opened(route, 1, authenticates=authenticates) as (caller,):
        alone = _call(caller, request, size.calls_among)
        _settle(meter)
        memory_before, cpu, begun = meter.memory(), meter.cpu_seconds(), time.monotonic()
        with _opened(route, count, authenticates=authenticates) as clients:
            for client in clients:
                request.call(client)
            opened_in = time.monotonic() - begun
            opening_cpu = meter.cpu_seconds() - cpu
            _settle(meter)
            memory, cpu, begun = meter.memory(), meter.cpu_seconds(), time.monotonic()
            time.sleep(size.idle)
            idle_cpu = (meter.cpu_seconds() - cpu) / (time.monotonic() - begun)
            among = _call(caller, request, size.calls_among)
        _settle(meter)
    return {
        "connections": count,
        "opening_cpu_ms": opening_cpu / count * 1e3,
        "opened_in_s": opened_in,
        "memory_before_mb": memory_before / 1e6,
        "memory_mb": memory / 1e6,
        "memory_each_kb": (memory - memory_before) / count / 1e3,
        "idle_cpu_percent": idle_cpu * 100,
        "call_alone_ms": alone * 1e3,
        "call_among_ms": among * 1e3,
        "memory_after_mb": meter.memory() / 1e6,
    }


def _settle(meter: Meter) -> None:
    """Wait until the gateway has nothing to do, or the time is over."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    busy = True
    while busy and time.monotonic() < deadline:
        before = meter.cpu_seconds()
        time.sleep(_SETTLED_SECONDS)
        busy = meter.cpu_seconds() - before > _SETTLED_SECONDS / 10


@contextmanager
def _opened(route: Route, count: int, *, authenticates: bool) -> Iterator[list[WireClient]]:
    clients: list[WireClient] = []
    try:
        while len(clients) < count:
            new = [route.connect() for _ in range(min(_AT_ONCE, count - len(clients)))]
            clients += new
            for client in new if authenticates else ():
                client.authenticate(ADMIN, password_of(ADMIN))
        yield clients
    finally:
        for client in clients:
            client.close()


def _call(client: WireClient, request: Request, times: int) -> float:
    frame = request.frame(client)
    return median(client.seconds(frame) for _ in range(times))
