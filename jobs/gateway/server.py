"""The gateway's listeners and their connections."""

import asyncio
import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from jobs.gateway.arrivals import Arrival
from jobs.gateway.buffers import Buffers
from jobs.gateway.connection import BrokerConnection, ClientConnection, now_monotonic_ms
from jobs.gateway.encryption import Encryption
from jobs.gateway.listeners import Listener, listener_of, own_address
from quota.errors import BadInput
from quota.gateway.context import GatewayContext
from quota.kafka.awaited_decisions import Decisions
from quota.kafka.quotas.writer import LoggedRates
from quota.kafka.timing import Deadline, Every
from quota.settings.gateway import GatewaySettings
from quota.wire.protocol import Address

_log = logging.getLogger(__name__)

_TICK_SECONDS = 0.2
_SWEEP_SECONDS = 1.0
_DRAIN_TICK_SECONDS = 0.05
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_BACKLOG = 1024
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


class GatewayServer:
    """Serves clients on all listeners until it is stopped; used on one event loop."""

    def __init__(
        self,
        context: GatewayContext,
        decisions: Decisions,
        rates: LoggedRates,
        settings: GatewaySettings,
        encryption: Encryption,
    ) -> None:
        self.context = context
        self.decisions = decisions
        self.rates = rates
        self._settings = settings
        self._encryption = encryption
        self.brokers: dict[int, Address] = {}
        """The brokers behind the listeners, by port."""
        self._servers: dict[int, asyncio.Server] = {}
        self._connections: dict[Hashable, ClientConnection] = {}
        self._arriving = 0
        """Accepted connections that are none of these yet."""
        self.buffers = Buffers()
        self._alarm: tuple[int, asyncio.TimerHandle] | None = None

    async def serve(self, listeners: Sequence[Listener], stop: threading.Event) -> None:
        """Serve until `stop` is set; then finish the running mutations."""
        for listener in listeners:
            await self._open(listener)
        print(f"ready {self._settings.address}:{listeners[0].port}", flush=True)
        stats, sweep = self.context.stats, Every(_SWEEP_SECONDS)
        stats.is_serving = True
        while not stop.is_set():
            stats.looped_at = time.monotonic()
            due = sweep.is_due()
            if due or self.buffers.is_crowded:
                self._update_buffers()
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

    async def join(self, node: int, broker: Address) -> None:
        """Listen for a broker that has joined or moved, and give clients the gateway's address for it from then on."""
        listener = listener_of(self._settings.first_port, node, broker)
        if not self.context.stats.is_serving:
            return
        if listener.port in self._servers:
            self._servers.pop(listener.port).close()
            del self.brokers[listener.port]
        await self._open(listener)
        self.context.addresses.add(broker, own_address(self._settings, listener.port))

    def serves(self, node: int, broker: Address) -> bool:
        """Return whether the port of a node leads to a broker, and clients get this port for the broker."""
        port = listener_of(self._settings.first_port, node, broker).port
        own = own_address(self._settings, port)
        return self.brokers.get(port) == broker and self.context.addresses.own(broker) == own

    async def _open(self, listener: Listener) -> None:
        """Serve clients on a listener."""
        self._servers[listener.port] = await self._listen(listener)
        self.brokers[listener.port] = listener.broker
        _log.info("gateway: %s:%d forwards to %s:%d", self._settings.address, listener.port, *listener.broker)

    # For its connections

    def accepted(self) -> str | None:
        """Count a new connection; return the reason if there are too many. Then comes `opened` or `left`."""
        self._arriving += 1
        self.context.stats.accepted += 1
        self._count()
        if self.context.stats.connections > self._settings.max_connections:
            return f"there are more than gateway.max_connections={self._settings.max_connections}"
        return None

    def left(self) -> None:
        """Count one that has ended before it was opened."""
        self._arriving -= 1
        self._count()

    def refused(self, peer: str, reason: str, message: str) -> None:
        """Count a connection that is closed because of what came before the client's requests."""
        self.context.stats.add_closed(reason, peer, message, now_monotonic_ms())

    def opened(self, connection: ClientConnection) -> None:
        """Add an accepted connection, whose TLS, if it has any, is established."""
        self._arriving -= 1
        self._connections[connection.channel] = connection
        self._count()

    def closed(self, connection: ClientConnection) -> None:
        """Remove a connection."""
        self._connections.pop(connection.channel, None)
        self._count()

    def _count(self) -> None:
        self.context.stats.connections = len(self._connections) + self._arriving

    def user_of(self, certificate: bytes | None) -> str | None:
        """Return the user that a certificate identifies (DER); None if certificates identify no users."""
        return self._encryption.user_of(certificate)

    def buffer(self, more: int) -> None:
        """Add to the bytes that connections buffer; once these are too many, have all buffer less."""
        self.buffers.total += more
        if self.buffers.is_over:
            self._update_buffers()

    def watch_mutes(self) -> None:
        """Schedule `_on_alarm` for the time when the next channel is unmuted."""
        next_at = self.context.mutes.next_at()
        if next_at is None or (self._alarm is not None and self._alarm[0] <= next_at):
            return
        if self._alarm is not None:
            self._alarm[1].cancel()
        seconds = max(next_at - now_monotonic_ms(), 0) / 1000
        self._alarm = (next_at, asyncio.get_running_loop().call_later(seconds, self._on_alarm))

    async def connect(
        self, listener: Listener, certificate: bytes | None, make: Callable[[], BrokerConnection]
    ) -> BrokerConnection:
        """Connect to the broker behind a listener, for a client with a certificate (DER) or without one."""
        host, port = listener.broker
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_SECONDS):
            tls = await self._encryption.context_for(certificate)
            _, made = await loop.create_connection(make, host, port, ssl=tls, server_hostname=host if tls else None)
        return made

    async def _listen(self, listener: Listener) -> asyncio.Server:
        client = partial(ClientConnection, self, listener)
        make = partial(Arrival, self, client, self._encryption.clients, _AUTHENTICATION_SECONDS)
        address, shared = self._settings.address, self._settings.reuse_port
        place: dict[str, Any] = {"host": address, "port": listener.port, "reuse_port": shared}
        try:
            if address == _ALL_ADDRESSES and socket.has_dualstack_ipv6():
                options: dict[str, Any] = {"family": socket.AF_INET6, "dualstack_ipv6": True, "reuse_port": shared}
                place = {"sock": socket.create_server((address, listener.port), **options)}
            return await asyncio.get_running_loop().create_server(make, **place, backlog=_BACKLOG)
        except OSError as error:
            address = f"{address}:{listener.port}"
            if error.errno == errno.EADDRINUSE:
                raise BadInput(
                    f"gateway: {address} is in use; set gateway.first_port or gateway.listeners to other ports, or "
                    "gateway.reuse_port=true for all gateways that share them"
                ) from None
            raise BadInput(f"gateway.address: cannot listen on {address}: {error.strerror}") from None

    def _on_alarm(self) -> None:
        """Resume the channels whose throttle time has ended."""
        self._alarm = None
        for channel in self.context.mutes.due(now_monotonic_ms()):
            connection = self._connections.get(channel)
            if connection is not None:
                connection.run(connection.channel.resume)
        self.watch_mutes()

    def _update_buffers(self) -> None:
        """Count what all connections buffer, less what was sent meanwhile, and limit each if these are too many."""
        connections = list(self._connections.values())
        self.buffers.total += sum(connection.count_buffered() for connection in connections if connection.buffered)
        self.context.stats.buffered_bytes = self.buffers.total
        if self.buffers.update():
            for connection in connections:
                connection.limit_buffered()

    def _close_idle(self) -> None:
        """Close connections that do not authenticate in time, or are idle for too long."""
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if connection.closing_at is not None:
                continue
            if not connection.is_authenticated and now - connection.started_at > _AUTHENTICATION_SECONDS:
                connection.close("authentication_timeout", "the client has not authenticated in time")
            elif connection.is_receiving_request and now - connection.request_at > _REQUEST_SECONDS:
                connection.end("slow_request", f"a request has not arrived completely in {_REQUEST_SECONDS:.0f} s")
            elif not connection.channel.is_waiting and now - connection.active_at > _MAX_IDLE_SECONDS:
                connection.close("idle")

    def _abort_unclosed(self) -> None:
        """Abort closed connections whose clients do not read the sent data, or do not end TLS on their side."""
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if connection.closing_at is not None and now - connection.closing_at > _CLOSE_SECONDS:
                connection.abort()

    async def _drain(self) -> None:
        """Respond to open requests for a limited time, and close each connection when it has none."""
        deadline = Deadline(self._settings.decision_timeout_seconds + _BROKER_SECONDS)
        for connection in self._connections.values():
            connection.stop_reading()
        while self._connections and not deadline.has_passed:
            self.context.stats.looped_at = time.monotonic()
            for connection in list(self._connections.values()):
                if connection.channel.is_idle:
                    connection.close()
            self._update_buffers()
            self._abort_unclosed()
            await asyncio.sleep(_DRAIN_TICK_SECONDS)
        for connection in list(self._connections.values()):
            connection.abort()
