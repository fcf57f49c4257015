"""Connections that arrive through a load balancer, which names the client before the client's own first byte."""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import cast

from jobs.gateway.connection import ClientConnection, peer_of
from quota.wire.primitives import Malformed
from quota.wire.proxy_header import missing_bytes, source_of


class LoadBalancers:
    """The addresses of load balancers, whose connections begin with a PROXY header."""

    def __init__(self, networks: Iterable[str]) -> None:
        """Take addresses and networks (`gateway.load_balancers`)."""
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(network) for network in networks]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, peer: str) -> bool:
        try:
            address = ip_address(peer.partition("%")[0])  # without the zone of IPv6
        except ValueError:  # it has left already
            return False
        return any(address in network for network in self._networks)


class ProxiedConnection(asyncio.BufferedProtocol):
    """A connection whose client is not known yet, nor its TLS begun.

    `asyncio` begins TLS with the first byte of a connection; here it is begun after the header, of which no more bytes
    are taken than it has. A connection that does not come from a load balancer is passed on at once.
    """

    def __init__(
        self,
        make: Callable[[], ClientConnection],
        balancers: LoadBalancers,
        tls: ssl.SSLContext | None,
        seconds: float,
    ) -> None:
        """Take the client's connection to be made, its TLS, and the time for the header and for the handshake [s]."""
        self._make = make
        self._balancers = balancers
        self._tls = tls
        self._seconds = seconds
        self._header = bytearray()
        self._buffer = bytearray(missing_bytes(b""))
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the header, if the other side is a load balancer."""
        self._transport = cast("asyncio.Transport", transport)
        if peer_of(transport) in self._balancers:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._refuse, "its PROXY header is late")
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
            self._refuse(str(error))
            return
        self._buffer = bytearray(missing)
        if not missing:
            self._pass_on(source_of(self._header) or "")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the cause is irrelevant
        """Forget the connection."""
        self._end()

    def _pass_on(self, peer: str = "") -> None:
        transport = self._end()
        if transport is None:
            return
        client = self._make()  # its time to authenticate begins
        client.peer = peer
        protocol: asyncio.BaseProtocol = client
        if self._tls is not None:
            loop = asyncio.get_running_loop()
            protocol = SSLProtocol(loop, client, self._tls, None, server_side=True, ssl_handshake_timeout=self._seconds)  # type: ignore[arg-type]
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _refuse(self, why: str) -> None:
        transport = self._end()
        if transport is not None:
            self._make().refused(transport, "load_balancer", why)
            transport.abort()

    def _end(self) -> asyncio.Transport | None:
        """Return the transport the first time, and leave it alone from then on."""
        transport, self._transport = self._transport, None
        if self._timer is not None:
            self._timer.cancel()
        return transport
