"""The routes of a measurement: to the broker, and through gateways whose processor time and memory are measured."""

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quota.errors import MutationQuotaError
from quota.settings import Settings
from tests.evidence.gateway.ground import Ground
from tests.evidence.gateway.requests import Request
from tests.support.programs import memory_bytes
from tests.support.wire_client import WireClient

DIRECT = "direct"

Row = dict[str, Any]
"""A row of a table of results."""


@dataclass(frozen=True, slots=True)
class Meter:
    """The processor time and the memory of a process, as counted by the kernel."""

    pid: int

    def cpu_seconds(self) -> float:
        """Return the processor time that its threads have taken."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        return memory_bytes(self.pid)


@dataclass(frozen=True, slots=True)
class Route:
    """A way to the broker."""

    name: str
    ground: Ground
    port: int
    meter: Meter | None = None
    """Of the gateway; None for a direct connection."""
    tls: ssl.SSLContext | None = None
    """None for a connection without TLS."""

    def connect(self) -> WireClient:
        """Connect to the broker."""
        return self.ground.connect(self.port, self.tls)

    def check(self, request: Request) -> None:
        """Send a request, whose response must not have an error: otherwise there is nothing to measure.

        Raises:
            MutationQuotaError: It has.
        """
        with self.connect() as client:
            if failed := set(_error_codes(request.call(client))) - {0}:
                raise MutationQuotaError(f"{request.name}, {self.name}: {failed}")

    def cpu_seconds(self) -> float:
        """Return the processor time that the gateway has taken; 0 for a direct connection."""
        return self.meter.cpu_seconds() if self.meter else 0.0


def _error_codes(message: object) -> Iterator[int]:
    if isinstance(message, dict):
        if "errorCode" in message:
            yield message["errorCode"]
        message = list(message.values())
    if isinstance(message, list):
        for part in message:
            yield from _error_codes(part)


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes, whose order is that of measurements: they alternate."""

    direct: Route
    plain: Route
    """Through a gateway without authentication."""
    authenticating: Route
    """Through a gateway in front of the listener that authenticates."""
    encrypting: Route
    """Through a gateway with TLS on both sides."""


@contextmanager
def routes(where: Ground, settings: Settings) -> Iterator[Routes]:
    """Run a gateway for each route inside the block."""
    with ExitStack() as stack:
        gateways = {
            "gateway": stack.enter_context(where.gateway(settings, "plain")),
            "SASL PLAIN": stack.enter_context(where.authenticating_gateway(settings, "authenticating")),
            "TLS": stack.enter_context(where.encrypting_gateway(settings, "encrypting")),
        }
        through = [
            Route(name, where, gateway.port, Meter(gateway.pid), where.trusting() if name == "TLS" else None)
            for name, gateway in gateways.items()
        ]
        yield Routes(Route(DIRECT, where, where.port), *through)
