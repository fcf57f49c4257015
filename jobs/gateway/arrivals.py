"""Connections from their acceptance to their first request: their number, and TLS."""

import asyncio
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, cast

from jobs.gateway.connection import ClientConnection
from jobs.gateway.encryption import ClientTls

if TYPE_CHECKING:
    from jobs.gateway.server import GatewayServer


class Arrival(asyncio.Protocol):
    """A connection that counts from its acceptance; `asyncio` tells of one with TLS once its handshake is done."""

    def __init__(
        self,
        host: "GatewayServer",
        make: Callable[[str], ClientConnection],
        tls: ssl.SSLContext | None,
        seconds: float,
    ) -> None:
        """Take what makes a connection for a peer, its TLS, and the time for the handshake [s]."""
        self._host = host
        self._make = make
        self._tls = tls
        self._seconds = seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse it if there are too many; else pass it on."""
        accepted, peer = cast("asyncio.Transport", transport), peer_of(transport)
        too_many = self._host.accepted()
        if too_many:
            self._host.refused(peer, "too_many", too_many)
            accepted.abort()
            return
        client = self._make(peer)  # its time to authenticate begins
        protocol: asyncio.BaseProtocol = client
        if self._tls is not None:
            protocol = ClientTls(self._host, client, self._tls, self._seconds)
        accepted.set_protocol(protocol)
        protocol.connection_made(accepted)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the cause is irrelevant
        """Forget a refused connection."""
        self._host.left()


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the IP address of the other side; that of IPv4 in its own form, also on a socket of IPv6."""
    name = transport.get_extra_info("peername")
    if not name:
        return "unknown"
    address = ip_address(name[0])
    return str(getattr(address, "ipv4_mapped", None) or address)
