"""Connections from their acceptance to their first request: their number, a load balancer's header, and TLS."""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, cast

from jobs.gateway.connection import ClientConnection
from jobs.gateway.encryption import ClientTls
from quota.wire.primitives import Malformed
from quota.wire.proxy_header import missing_bytes, source_of, unmapped

if TYPE_CHECKING:
    from jobs.gateway.server import GatewayServer


class LoadBalancers:
    """The addresses of load balancers, whose connections begin with a PROXY header."""

    def __init__(self, networks: Iterable[str]) -> None:
        """Take addresses and networks (`gateway.load_balancers`)."""
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(network) for network in networks]

    def __contains__(self, peer: str) -> bool:
        try:
            address = ip_address(peer.partition("%")[0])  # without the zone of IPv6
        except ValueError:  # it has left already
            return False
        return any(address in network for network in self._networks)


class Arrival(asyncio.BufferedProtocol):
    """A connection that counts from its acceptance, whose client is not known yet, nor its TLS begun.

    `asyncio` begins TLS with the first byte of a connection, and tells of a connection once its handshake is done; here
    TLS is begun after the header, of which no more bytes are taken than it has. A connection that does not come from a
    load balancer is passed on at once.
    """

    def __init__(
        self,
        host: "GatewayServer",
        make: Callable[[str], ClientConnection],
        balancers: LoadBalancers,
        tls: ssl.SSLContext | None,
        seconds: float,
    ) -> None:
        """Take what makes a connection for a peer, its TLS, and the time for header and handshake, each [s]."""
        self._host = host
        self._make = make
        self._balancers = balancers
        self._tls = tls
        self._seconds = seconds
        self._peer = ""
        self._header = bytearray()
        self._buffer = bytearray(missing_bytes(b""))
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse it if there are too many; wait for the header, if the other side is a load balancer."""
        self._transport = cast("asyncio.Transport", transport)
        self._peer = peer_of(transport)
        too_many = self._host.accepted()
        if too_many:
            self._refuse("too_many", too_many)
        elif self._peer in self._balancers:
            late = "load_balancer", "its PROXY header is late"
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._refuse, *late)
        else:
            self._pass_on()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 that of the transport
        """Return the space for what is missing of the header."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take a part of the header."""
        self._header += self._buffer[:nbytes]
        try:
            missing = missing_bytes(self._header)
        except Malformed as error:
            self._refuse("load_balancer", str(error))
            return
        self._buffer = bytearray(missing)
        if not missing:
            self._peer = source_of(self._header) or self._peer
            self._pass_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the cause is irrelevant
        """Forget the connection."""
        self._host.left()
        self._end()

    def _pass_on(self) -> None:
        transport = self._end()
        if transport is None:
            return
        client = self._make(self._peer)  # its time to authenticate begins
        protocol: asyncio.BaseProtocol = client
        if self._tls is not None:
            protocol = ClientTls(self._host, client, self._tls, self._seconds)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _refuse(self, reason: str, why: str) -> None:
        transport = self._end()
        if transport is not None:
            self._host.refused(self._peer, reason, why)
            transport.abort()

    def _end(self) -> asyncio.Transport | None:
        """Return the transport the first time, and leave it alone from then on."""
        transport, self._transport = self._transport, None
        if self._timer is not None:
            self._timer.cancel()
        return transport


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the IP address of the other side; that of IPv4 in its own form, also on a socket of IPv6."""
    name = transport.get_extra_info("peername")
    return str(unmapped(ip_address(name[0]))) if name else "unknown"
