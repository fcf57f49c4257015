"""Connections from their acceptance to their first request: their number, and TLS."""

import asyncio
import ssl
import time
from asyncio.sslproto import AppProtocolState, SSLProtocol, SSLProtocolState
from ipaddress import ip_address
from typing import cast

from jobs.gateway.connection import ClientConnection, Connections
from jobs.gateway.encryption import reason_of
from quota.kafka.timing import now_monotonic_ms

_MOST_HANDSHAKES = 100
"""The handshakes under way: enough for 500 a second at 0.2 s each, on one core."""
_HANDSHAKE_SECONDS = 1.0
"""How long one counts among them: a client that takes longer does not hold up the others."""
_RECORD_HEAD = 5
"""The bytes of a record before its content, the last two of which are the length of that."""
_HELLO_BYTES = 4 * 1024
"""What is read of a client whose handshake waits; it sends less before it is answered."""


class Handshakes:
    """The TLS handshakes under way, of which there are few at a time.

    If thousands of clients that connect at once were served together, none would be done in the time that it has, and
    each would begin again. The others wait, in the order of their first records, unless their clients leave.
    """

    def __init__(self) -> None:
        self._under_way: set[ClientTls] = set()
        self._waiting: dict[ClientTls, None] = {}
        self._next: asyncio.Handle | None = None

    def add(self, handshake: "ClientTls") -> None:
        """Begin a handshake now, or when those before it have ended."""
        self._waiting[handshake] = None
        self._begin_next()

    def end(self, handshake: "ClientTls") -> None:
        """Take note that a handshake has ended, one way or the other, or takes long."""
        self._waiting.pop(handshake, None)
        self._under_way.discard(handshake)
        self._begin_next()

    def _begin_next(self) -> None:
        """Begin one in each turn of the event loop, so that those under way and all other clients have theirs."""
        if self._next is None and self._waiting and len(self._under_way) < _MOST_HANDSHAKES:
            self._next = asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._next = None
        if self._waiting:
            handshake = next(iter(self._waiting))
            del self._waiting[handshake]
            self._under_way.add(handshake)
            asyncio.get_running_loop().call_later(_HANDSHAKE_SECONDS, self.end, handshake)
            self._begin_next()
            handshake.begin()


class Arrival(asyncio.Protocol):
    """A connection that counts from its acceptance; `asyncio` tells of one with TLS once its handshake is done."""

    def __init__(self, connections: Connections, handshakes: Handshakes, port: int, seconds: float) -> None:
        """Take the port of the listener, and the time for the handshake [s]."""
        self._connections = connections
        self._handshakes = handshakes
        self._port = port
        self._seconds = seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse it if there are too many; else pass it on."""
        accepted, peer = cast("asyncio.Transport", transport), peer_of(transport)
        too_many = self._connections.accepted()
        if too_many:
            self._connections.context.stats.add_closed("too_many", peer, too_many, now_monotonic_ms())
            accepted.abort()
            return
        client = ClientConnection(self._connections, self._port, peer)
        protocol: asyncio.BaseProtocol = client
        tls = self._connections.encryption.clients
        if tls is not None:
            protocol = ClientTls(self._connections, self._handshakes, client, tls, self._seconds)
        accepted.set_protocol(protocol)
        protocol.connection_made(accepted)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the cause is irrelevant
        """Forget a refused connection."""
        self._connections.left()


class ClientTls(SSLProtocol):
    """TLS of a client's connection, which counts one that ends before its handshake is done."""

    def __init__(
        self,
        connections: Connections,
        handshakes: Handshakes,
        client: ClientConnection,
        context: ssl.SSLContext,
        seconds: float,
    ) -> None:
        """Take the time for the handshake [s], which begins with its connection, and again with its turn."""
        loop = asyncio.get_running_loop()
        super().__init__(loop, client, context, None, server_side=True, ssl_handshake_timeout=seconds)  # type: ignore[arg-type]
        self._connections = connections
        self._handshakes = handshakes
        self._client = client
        self._seconds = seconds
        self._is_added = self._has_begun = False

    def begin(self) -> None:
        """Begin the handshake, and its time, and that to authenticate."""
        if self._state is SSLProtocolState.DO_HANDSHAKE:  # type: ignore[attr-defined]
            self._has_begun = True
            self._client.started_at = time.monotonic()
            cast("asyncio.Transport", self._transport).resume_reading()
            end = asyncio.get_running_loop().call_later(self._seconds, self._check_handshake_timeout)
            self._handshake_timeout_handle = end
            self._do_handshake()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End TLS."""
        unfinished = self._is_unfinished
        self._handshakes.end(self)
        super().connection_lost(exc)
        if unfinished:
            self._connections.left()

    def _do_handshake(self) -> None:
        if self._has_begun:
            super()._do_handshake()  # type: ignore[misc]
        elif not self._is_added and _has_record(self._incoming):  # type: ignore[attr-defined]
            self._is_added = True
            self._handshake_timeout_handle.cancel()
            self._handshakes.add(self)
        elif self._incoming.pending > _HELLO_BYTES:  # type: ignore[attr-defined]
            cast("asyncio.Transport", self._transport).pause_reading()

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        super()._on_handshake_complete(handshake_exc)
        self._handshakes.end(self)

    def _fatal_error(self, exc: BaseException, message: str = "Fatal error on transport") -> None:
        if self._transport and self._is_unfinished and not self._is_probe(exc):
            why = reason_of(exc) if isinstance(exc, OSError) else str(exc)
            why = f"its TLS handshake failed: {why}"
            self._connections.context.stats.add_closed("tls", self._client.peer, why, now_monotonic_ms())
        super()._fatal_error(exc, message)

    @property
    def _is_unfinished(self) -> bool:
        return self._app_state is AppProtocolState.STATE_INIT  # type: ignore[attr-defined]

    def _is_probe(self, exc: BaseException) -> bool:
        """Return whether the connection ends before its ClientHello is complete, as those of health checks do."""
        tls = self._sslobj  # type: ignore[attr-defined]
        has_hello = tls is not None and tls.shared_ciphers() is not None
        return isinstance(exc, ConnectionResetError) and not has_hello


def _has_record(received: ssl.MemoryBIO) -> bool:
    """Return whether a whole record of TLS has arrived, or as much as is read of it, or what is none."""
    data = received.read()
    received.write(data)  # there is no other way to look at it
    if data[:1] != b"\x16" or len(data) > _HELLO_BYTES:
        return bool(data)
    return len(data) > _RECORD_HEAD and len(data) >= _RECORD_HEAD + int.from_bytes(data[3:_RECORD_HEAD])


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the IP address of the other side; that of IPv4 in its own form, also on a socket of IPv6."""
    name = transport.get_extra_info("peername")
    if not name:
        return "unknown"
    address = ip_address(name[0])
    return str(getattr(address, "ipv4_mapped", None) or address)
