"""The gateway's listeners: their ports, the broker behind each, and the addresses that are advertised to clients."""

import asyncio
import errno
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from jobs.gateway.arrivals import Arrival, Handshakes
from jobs.gateway.brokers import CHECK_SECONDS
from jobs.gateway.connection import Connections
from jobs.gateway.encryption import Encryption
from quota.errors import BadInput, ClusterError, MutationQuotaError
from quota.gateway.addresses import Addresses
from quota.gateway.context import GatewayContext
from quota.kafka.awaited_decisions import AwaitedDecisions
from quota.kafka.quotas.writer import LoggedRates
from quota.kafka.timing import Deadline, Every
from quota.settings.jobs import GatewaySettings
from quota.settings.types import MAX_PORT
from quota.wire.protocol import Address

_log = logging.getLogger(__name__)

_Ask = Callable[[Address], Awaitable[dict[int, Address]]]

_ANY_ADDRESS = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 these are rejected

_TICK_SECONDS = 0.2
_SWEEP_SECONDS = 1.0
_DRAIN_TICK_SECONDS = 0.05
_CLOSE_SECONDS = 5.0
_BACKLOG = 1024
_FIRST_PORTS = 10
"""The number of ports, from the first on, that are open without a broker, too, if the last broker's is above them."""
_PLACE_OF_ZERO = 1000
"""The node id whose port node id 0 has: the last that operators choose, by Kafka's `reserved.broker.max.id`."""
_ALL_ADDRESSES = "::"
"""The address of this machine's IPv6 and IPv4 addresses, as for brokers; `asyncio` would take those of IPv6 alone."""
_AUTHENTICATION_SECONDS = 10.0
"""The time that a client may take for its TLS handshake, and to authenticate [s]."""
_BROKER_SECONDS = 20.0
"""The time in which a broker carries out a mutation that was decided when the gateway stops [s]."""
_REQUEST_SECONDS = 60.0
"""The time that a client may take to send a request that is read whole [s]."""
_MAX_IDLE_SECONDS = 600.0
"""The time after which an idle connection is closed: Kafka's default of `connections.max.idle.ms` [s]."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A port of the gateway, and the broker behind it."""

    port: int
    broker: Address


def plan_listeners(settings: GatewaySettings, advertised: Mapping[int, Address]) -> tuple[list[Listener], Addresses]:
    """Return the listeners, and the rule for the addresses in responses."""
    host, _ = own_address(settings, settings.first_port)
    if host in _ANY_ADDRESS:
        raise BadInput(
            f"clients cannot connect to {host}: set gateway.advertised_host to a name that clients can reach"
        )
    listeners = [Listener(*port) for port in settings.ports] or [
        listener_of(settings.first_port, node, broker) for node, broker in sorted(advertised.items())
    ]
    if 0 in advertised and not settings.ports:
        _check_port(0, advertised)
        port = listener_of(settings.first_port, 0, advertised[0]).port
        _log.warning("the broker with node id 0 has port %d; gateway.listeners can give it another one", port)
    own = [own_address(settings, listener.port) for listener in listeners]
    if settings.advertised_by == "brokers":
        addresses = Addresses({address: address for address in own})
        advice = "the brokers' advertised.listeners must name the gateway's ports, or gateway.advertised_by=gateway"
    else:
        addresses = Addresses(dict(zip((listener.broker for listener in listeners), own, strict=True)))
        advice = "gateway.listeners must name each broker as it is advertised"
    if foreign := addresses.foreign(advertised.values()):
        raise BadInput(
            f"clients would bypass the gateway: brokers advertise {_join(foreign)}, but the gateway's addresses are "
            f"{_join(addresses.advertised)}; {advice}"
        )
    return listeners, addresses


def own_address(settings: GatewaySettings, port: int) -> Address:
    """Return the address by which clients reach a port of the gateway."""
    return settings.advertised_host or settings.address, port


def listener_of(first_port: int, node: int, broker: Address) -> Listener:
    """Return the listener for a broker, on a port that follows from its node id, whichever other brokers there are.

    None is below `first_port`, which is that of node id 1; node id 0 has that of node id 1000, which is seldom used.
    """
    port = first_port + (node or _PLACE_OF_ZERO) - 1
    if not 1 <= port <= MAX_PORT:
        raise BadInput(
            f"gateway.first_port={first_port}: the broker with node id {node} would have port {port}; give its port in "
            "gateway.listeners"
        )
    return Listener(port, broker)


def _join(addresses: Sequence[Address]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in addresses)


class GatewayServer:
    """Serves clients on all listeners until it is stopped; used on one event loop."""

    def __init__(
        self,
        context: GatewayContext,
        decisions: AwaitedDecisions,
        rates: LoggedRates,
        settings: GatewaySettings,
        encryption: Encryption,
    ) -> None:
        self.context = context
        self.connections = Connections(context, decisions, rates, encryption, settings.max_connections)
        self._settings = settings
        self._encryption = encryption
        self._handshakes = Handshakes()
        self._servers: dict[int, asyncio.Server] = {}

    async def serve(self, listeners: Sequence[Listener], stop: threading.Event) -> None:
        """Serve until `stop` is set; then finish the running mutations."""
        for listener in listeners:
            await self._open(listener)
        await self._open_spare()
        print(f"ready {self._settings.address}:{min(self._servers)}", flush=True)
        stats, sweep = self.context.stats, Every(_SWEEP_SECONDS)
        stats.is_serving = True
        while not stop.is_set():
            stats.looped_at = time.monotonic()
            due = sweep.is_due()
            if due or self.connections.buffers.is_crowded:
                self.connections.update_buffers()
            if due:
                self._abort_unclosed()
                self._close_idle()
                self._encryption.refresh()
                if self._encryption.certificate is not None:
                    stats.certificate_ends_at = self._encryption.certificate.value.ends_at
            await asyncio.sleep(_TICK_SECONDS)
        stats.is_serving = False
        for server in self._servers.values():
            server.close()
        await self._drain()

    async def follow_joins(self, bootstrap: Sequence[Address], ask: _Ask) -> None:
        """Regularly listen for brokers that have joined, or have another address now, until cancelled.

        `ask` returns the addresses that a broker advertises, by node id, and checks its listener. The brokers of the
        last answer are asked, then those of `bootstrap`. A new broker has to answer too, with its own address. What
        fails is tried again, and logged once.
        """
        known: Sequence[Address] = []
        logged = set[str]()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            failures = set[str]()
            advertised = await _first_answer([*known, *bootstrap], ask)
            for node, broker in advertised.items():
                try:
                    if not self.serves(node, broker):
                        _check_port(node, advertised)
                        await self._serve_new(node, broker, ask)
                except Exception as error:  # noqa: BLE001 nobody else would see that it ended
                    reason = error if isinstance(error, MutationQuotaError) else repr(error)
                    failures.add(f"the broker with node id {node} has no port of this gateway: {reason}")
            for failure in failures - logged:
                _log.error("%s", failure)
            known, logged = list(advertised.values()) or known, failures

    async def _serve_new(self, node: int, broker: Address, ask: _Ask) -> None:
        """Listen for a broker that has joined or moved, and give clients the gateway's address for it from then on."""
        listener = listener_of(self._settings.first_port, node, broker)
        if (await ask(broker)).get(node) != broker:
            raise ClusterError(f"{broker[0]}:{broker[1]} does not advertise this address itself")
        if self.context.stats.is_serving:
            await self._open(listener)
            self.context.addresses.add(broker, own_address(self._settings, listener.port))

    def serves(self, node: int, broker: Address) -> bool:
        """Return whether the port of a node leads to a broker, and clients get this port for the broker."""
        port = listener_of(self._settings.first_port, node, broker).port
        own = own_address(self._settings, port)
        return self.connections.brokers.get(port) == broker and self.context.addresses.own(broker) == own

    async def _open(self, listener: Listener) -> None:
        if listener.port not in self._servers:
            self._servers[listener.port] = await self._listen(listener.port)
        if self.connections.brokers.get(listener.port, listener.broker) != listener.broker:
            for connection in self.connections:  # another broker may have the former address by now
                if connection.port == listener.port:
                    connection.end("broker_back", "the broker behind its port has another address")
        self.connections.brokers[listener.port] = listener.broker
        self.context.stats.set_broker(listener.port, "")
        _log.info("gateway: %s:%d forwards to %s:%d", self._settings.address, listener.port, *listener.broker)

    async def _open_spare(self) -> None:
        """Listen on the first ports without a broker, too, because clients may know them: they lead to any broker."""
        first = self._settings.first_port
        for port in range(first, min(first + _FIRST_PORTS, max(self._servers))) if not self._settings.listeners else ():
            if port not in self._servers:
                try:
                    self._servers[port] = await self._listen(port)
                except BadInput as error:  # it works without
                    _log.info("%s", error)

    async def _listen(self, port: int) -> asyncio.Server:
        make = partial(Arrival, self.connections, self._handshakes, port, _AUTHENTICATION_SECONDS)
        address, shared = self._settings.address, self._settings.reuse_port
        place: dict[str, Any] = {"host": address, "port": port, "reuse_port": shared}
        try:
            if address == _ALL_ADDRESSES and socket.has_dualstack_ipv6():
                options: dict[str, Any] = {"family": socket.AF_INET6, "dualstack_ipv6": True, "reuse_port": shared}
                place = {"sock": socket.create_server((address, port), **options)}
            return await asyncio.get_running_loop().create_server(make, **place, backlog=_BACKLOG)
        except OSError as error:
            address = f"{address}:{port}"
            if error.errno == errno.EADDRINUSE:
                raise BadInput(
                    f"gateway: {address} is in use; set gateway.first_port or gateway.listeners to other ports, or "
                    "gateway.reuse_port=true for all gateways that share them"
                ) from None
            raise BadInput(f"gateway.address: cannot listen on {address}: {error.strerror}") from None

    def _close_idle(self) -> None:
        """Close connections that do not authenticate in time, are idle for too long, or lead to a wrong broker.

        A client may take the broker that has stood in for another one for that one once it is back.
        """
        now = time.monotonic()
        for connection in self.connections:
            if connection.closing_at is not None:
                continue
            if connection.channel.stands_in and self.context.stats.broker_failures.get(connection.port) == "":
                connection.end("broker_back", "the broker behind its port responds")
            if connection.channel.user is None and now - connection.started_at > _AUTHENTICATION_SECONDS:
                connection.close("authentication_timeout", "the client has not authenticated in time")
            elif connection.is_receiving_request and now - connection.request_at > _REQUEST_SECONDS:
                connection.end("slow_request", f"a request has not arrived completely in {_REQUEST_SECONDS:.0f} s")
            elif not connection.channel.is_waiting and now - connection.active_at > _MAX_IDLE_SECONDS:
                connection.close("idle")

    def _abort_unclosed(self) -> None:
        """Abort closed connections whose clients do not read the sent data, or do not end TLS on their side."""
        now = time.monotonic()
        for connection in self.connections:
            if connection.closing_at is not None and now - connection.closing_at > _CLOSE_SECONDS:
                connection.abort()

    async def _drain(self) -> None:
        """Respond to open requests for a limited time, and close each connection when it has none."""
        deadline = Deadline(self._settings.decision_timeout_seconds + _BROKER_SECONDS)
        for connection in self.connections:
            connection.stop_reading()
        while self.connections and not deadline.has_passed:
            self.context.stats.looped_at = time.monotonic()
            for connection in self.connections:
                if connection.channel.is_idle:
                    connection.close()
            self.connections.update_buffers()
            self._abort_unclosed()
            await asyncio.sleep(_DRAIN_TICK_SECONDS)
        for connection in self.connections:
            connection.abort()


def _check_port(node: int, advertised: Container[int]) -> None:
    """Reject a node if another one has its port, too: it would lead to one, and then to the other."""
    if node in {0, _PLACE_OF_ZERO} and 0 in advertised and _PLACE_OF_ZERO in advertised:
        raise BadInput(f"the brokers with node ids 0 and {_PLACE_OF_ZERO} would have one port; give gateway.listeners")


async def _first_answer(brokers: Sequence[Address], ask: _Ask) -> dict[int, Address]:
    """Return what the first broker that answers advertises; nothing if none does, which is noticed elsewhere."""
    for broker in brokers:
        with suppress(Exception):
            return await ask(broker)
    return {}
