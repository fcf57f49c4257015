"""Connections that are open and idle, and a call among them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from tests.evidence.gateway.cost.calls import Request
from tests.evidence.gateway.cost.ground import PASSWORD, USER, Gateway, Ground
from tests.support.wire_client import WireClient

_AT_ONCE = 50
"""Number of clients that connect before the first of them sends anything."""
_SETTLE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Idle:
    """The cost of idle connections through a gateway; times in seconds, memory in bytes."""

    name: str
    connections: int
    opening_cpu: float
    """Processor time for all of them to connect, to authenticate and for a first call."""
    opened_in: float
    memory_before: int
    memory: int
    """Resident memory while they are idle."""
    idle_cpu: float
    """Processor time while they are idle."""
    idle_seconds: float
    call_alone: float
    """The median time of a call before they were opened."""
    call_among: float
    """The median time of a call while they are idle."""
    memory_after: int
    """Resident memory when they are closed again."""

    @property
    def bytes_each(self) -> float:
        """Memory per connection."""
        return (self.memory - self.memory_before) / self.connections


def idle_connections(ground: Ground, request: Request, count: int, seconds: float) -> Iterator[Idle]:
    """Yield the cost of `count` connections that are idle for `seconds`, without authentication and with it."""
    yield _idle(ground, ground.rewriting, "without authentication", request, (count, seconds))
    yield _idle(ground, ground.authenticating, "SASL PLAIN", request, (count, seconds))


def _idle(ground: Ground, gateway: Gateway, name: str, request: Request, plan: tuple[int, float]) -> Idle:
    count, seconds = plan
    authenticates = gateway is ground.authenticating
    with ground.connect(gateway.port) as caller:
        if authenticates:
            caller.authenticate(USER, PASSWORD)
        alone = _call(caller, request)
        time.sleep(_SETTLE_SECONDS)
        memory_before, cpu, begun = gateway.memory(), gateway.cpu_seconds(), time.monotonic()
        with _opened(ground, gateway.port, count, authenticates=authenticates) as clients:
            for client in clients:
                client.call(request.key, request.version, request.message)
            opened_in = time.monotonic() - begun
            opening_cpu = gateway.cpu_seconds() - cpu
            time.sleep(_SETTLE_SECONDS)
            memory, cpu, begun = gateway.memory(), gateway.cpu_seconds(), time.monotonic()
            time.sleep(seconds)
            idle_cpu, idle_seconds = gateway.cpu_seconds() - cpu, time.monotonic() - begun
            among = _call(caller, request)
        time.sleep(_SETTLE_SECONDS)
        return Idle(
            name,
            count,
            opening_cpu,
            opened_in,
            memory_before,
            memory,
            idle_cpu,
            idle_seconds,
            alone,
            among,
            gateway.memory(),
        )


@contextmanager
def _opened(ground: Ground, port: int, count: int, *, authenticates: bool) -> Iterator[list[WireClient]]:
    clients: list[WireClient] = []
    try:
        while len(clients) < count:
            new = [ground.connect(port) for _ in range(min(_AT_ONCE, count - len(clients)))]
            clients += new
            for client in new if authenticates else ():
                client.authenticate(USER, PASSWORD)
        yield clients
    finally:
        for client in clients:
            client.close()


def _call(client: WireClient, request: Request, times: int = 1000) -> float:
    frame = client.request(request.key, request.version, request.message)
    return median(client.seconds(frame) for _ in range(times))
