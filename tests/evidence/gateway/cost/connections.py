"""Connections that are open and idle, and a call among them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from tests.evidence.gateway.cost.routes import Meter, Route, Row
from tests.evidence.gateway.cost.size import Size
from tests.evidence.gateway.ground import ADMIN, password_of
from tests.evidence.gateway.requests import Request
from tests.support.wire_client import WireClient

_AT_ONCE = 50
"""Number of clients that connect before the first of them sends anything."""
_SETTLED_SECONDS = 0.2
"""The gateway is settled when it takes no processor time for so long."""
_SETTLE_SECONDS = 10.0


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
