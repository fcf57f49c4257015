"""The bytes that a gateway's connections buffer: of each, and of all together."""

import asyncio
import threading
from asyncio import constants
from asyncio.selector_events import _SelectorTransport  # type: ignore[attr-defined]
from asyncio.sslproto import SSLProtocol

HELD_BYTES = 64 * 1024
"""What is buffered of requests that wait. Above it the client is not read, and a disconnect is noticed later."""
CROWDED_BYTES = 16 * 1024 + 256
"""As above, and what is received at once, while all connections together buffer too much: a TLS record."""
_MAX_BYTES = 128 * 1024 * 1024
"""What all connections together buffer before each may buffer less."""
_RELIEVED_BYTES = _MAX_BYTES * 3 // 4
_RECEIVED_BYTES = 64 * 1024
"""What is received at once without TLS. The 256 KiB of `asyncio` take as much time a byte, and one after the other, of
some busy connections, they delay all others four times as long."""
_MAX_WIDE = 400
"""The TLS connections that receive eight records at once, and not one: those that first have more to receive.

It takes two fifths less processor time; but OpenSSL's buffers never shrink, and then keep 220 KB more a connection.
"""
_TLS_HIGH_WATER_KIB = 32
"""What a TLS connection holds in either direction for a peer that does not read.

`asyncio` has 512 KiB to be sent and 256 KiB received, which a hung broker would fill for each of its producers.
"""
_WIDE_BYTES = 128 * 1024
_wide: set[SSLProtocol] = set()
_received, _lost = SSLProtocol.buffer_updated, SSLProtocol.connection_lost


class _Shared(threading.local):
    """The buffer of all TLS connections of a thread: each copies what it has received before another one receives.

    So those of an event loop share it, and no two loops do. `asyncio` would allocate 256 KiB for each connection,
    before its handshake.
    """

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_WIDE_BYTES))


_shared = _Shared()


class Buffers:
    """The number of bytes that all connections buffer, in either direction.

    While it is too large, the gateway is crowded: of a connection `CROWDED_BYTES` are read at once, and only after what
    was read before is sent. So those that hold most wait first. The limit is then exceeded by `CROWDED_BYTES` for each
    connection, or three times as much with TLS (a record that has arrived in part, one to be encrypted, and one that is
    encrypted), and by responses that are read whole.
    """

    def __init__(self) -> None:
        self.total = 0
        self.is_crowded = False

    @property
    def is_over(self) -> bool:
        """Whether there are so many that the gateway has to become crowded."""
        return self.total > _MAX_BYTES and not self.is_crowded

    def update(self) -> bool:
        """Become crowded, or no longer; return whether this has changed. The total is exact."""
        crowded = self.total > (_RELIEVED_BYTES if self.is_crowded else _MAX_BYTES)
        if crowded == self.is_crowded:
            return False
        self.is_crowded = crowded
        limit_received(crowded=crowded)
        return True

    @property
    def held_bytes(self) -> int:
        """What each connection may buffer of requests that wait."""
        return CROWDED_BYTES if self.is_crowded else HELD_BYTES


def share_tls_buffer() -> None:
    """Have TLS connections, of clients and to brokers, share a buffer and hold less than `asyncio`'s own limits."""
    for direction in ("READ", "WRITE"):
        vars(constants)[f"FLOW_CONTROL_HIGH_WATER_SSL_{direction}"] = _TLS_HIGH_WATER_KIB
    for name in ("_ssl_buffer", "_ssl_buffer_view"):
        setattr(SSLProtocol, name, property(lambda _: _shared.buffer, lambda *_: None))
    SSLProtocol.max_size = CROWDED_BYTES  # what is allocated for each record that is read
    SSLProtocol.buffer_updated = _buffer_updated  # type: ignore[method-assign, assignment]
    SSLProtocol.connection_lost = _connection_lost  # type: ignore[method-assign, assignment]
    limit_received(crowded=False)


def limit_received(*, crowded: bool) -> None:
    """Set what all transports receive at once."""
    _SelectorTransport.max_size = CROWDED_BYTES if crowded else _RECEIVED_BYTES
    SSLProtocol.get_buffer = _narrow if crowded else _narrow_or_wide  # type: ignore[method-assign, assignment]


def _narrow(protocol: SSLProtocol, _hint: int) -> memoryview:
    return protocol._ssl_buffer_view[:CROWDED_BYTES]  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001


def _narrow_or_wide(protocol: SSLProtocol, _hint: int) -> memoryview:
    return protocol._ssl_buffer_view if protocol in _wide else _narrow(protocol, _hint)  # type: ignore[attr-defined]  # noqa: SLF001


def _buffer_updated(protocol: SSLProtocol, nbytes: int) -> None:
    if nbytes == CROWDED_BYTES and len(_wide) < _MAX_WIDE:
        _wide.add(protocol)
    _received(protocol, nbytes)


def _connection_lost(protocol: SSLProtocol, exc: Exception | None) -> None:
    _wide.discard(protocol)
    _lost(protocol, exc)


def buffered_bytes(transport: asyncio.Transport | None) -> int:
    """Return what a transport has not sent yet, or received and not passed on, also below its TLS."""
    if transport is None:
        return 0
    buffered = transport.get_write_buffer_size()
    tls = getattr(transport, "_ssl_protocol", None)
    if tls is not None:
        buffered += tls._incoming.pending + buffered_bytes(tls._transport)  # noqa: SLF001
    return buffered


def limit_unsent(transport: asyncio.Transport | None, *, crowded: bool) -> None:
    """Have a transport pause its protocol as soon as something is not sent, or at the default limits."""
    if transport is None or transport.is_closing():
        return
    limits = (1, 0) if crowded else ()
    tls = getattr(transport, "_ssl_protocol", None)
    if tls is not None:
        transport.set_read_buffer_limits(*limits)  # type: ignore[attr-defined]
        limit_unsent(tls._transport, crowded=crowded)  # noqa: SLF001
    transport.set_write_buffer_limits(*limits)
