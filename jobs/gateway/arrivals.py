"""Connections from their acceptance to their first request: their number, and TLS."""

import asyncio
import ssl
from asyncio.sslproto import AppProtocolState, SSLProtocol
from ipaddress import ip_address
from typing import cast

from jobs.gateway.connection import ClientConnection, Connections
from jobs.gateway.encryption import reason_of
from quota.kafka.timing import now_monotonic_ms
from quota.wire.protocol import Address


class Arrival(asyncio.Protocol):
    """A connection that counts from its acceptance; `asyncio` tells of one with TLS once its handshake is done."""

    def __init__(self, connections: Connections, broker: Address, seconds: float) -> None:
        """Take the broker behind the listener, and the time for the handshake [s]."""
        self._connections = connections
        self._broker = broker
        self._seconds = seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse it if there are too many; else pass it on."""
        accepted, peer = cast("asyncio.Transport", transport), peer_of(transport)
        too_many = self._connections.accepted()
        if too_many:
            self._connections.context.stats.add_closed("too_many", peer, too_many, now_monotonic_ms())
            accepted.abort()
            return
        client = ClientConnection(self._connections, self._broker, peer)  # its time to authenticate begins
        protocol: asyncio.BaseProtocol = client
        tls = self._connections.encryption.clients
        if tls is not None:
            protocol = ClientTls(self._connections, client, tls, self._seconds)
        accepted.set_protocol(protocol)
        protocol.connection_made(accepted)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the cause is irrelevant
        """Forget a refused connection."""
        self._connections.left()


class ClientTls(SSLProtocol):
    """TLS of a client's connection, which counts one that ends before its handshake is done."""

    def __init__(
        self, connections: Connections, client: ClientConnection, context: ssl.SSLContext, seconds: float
    ) -> None:
        """Take the time for the handshake [s]."""
        loop = asyncio.get_running_loop()
        super().__init__(loop, client, context, None, server_side=True, ssl_handshake_timeout=seconds)  # type: ignore[arg-type]
        self._connections = connections
        self._peer = client.peer

    def connection_lost(self, exc: BaseException | None) -> None:
        """End TLS."""
        unfinished = self._is_unfinished
        super().connection_lost(exc)
        if unfinished:
            self._connections.left()

    def _fatal_error(self, exc: BaseException, message: str = "Fatal error on transport") -> None:
        if self._transport and self._is_unfinished and not self._is_probe(exc):
            why = reason_of(exc) if isinstance(exc, OSError) else str(exc)
            why = f"its TLS handshake failed: {why}"
            self._connections.context.stats.add_closed("tls", self._peer, why, now_monotonic_ms())
        super()._fatal_error(exc, message)

    @property
    def _is_unfinished(self) -> bool:
        return self._app_state is AppProtocolState.STATE_INIT  # type: ignore[attr-defined]

    def _is_probe(self, exc: BaseException) -> bool:
        """Return whether the connection ends before its ClientHello is complete, as those of health checks do."""
        tls = self._sslobj  # type: ignore[attr-defined]
        has_hello = tls is not None and tls.shared_ciphers() is not None
        return isinstance(exc, ConnectionResetError) and not has_hello


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the IP address of the other side; that of IPv4 in its own form, also on a socket of IPv6."""
    name = transport.get_extra_info("peername")
    if not name:
        return "unknown"
    address = ip_address(name[0])
    return str(getattr(address, "ipv4_mapped", None) or address)
