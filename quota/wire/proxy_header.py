"""The header by which a load balancer names its client: the PROXY protocol, version 2.

Source: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2.
"""

import struct
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from quota.wire.primitives import Malformed

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_BEGINNING = struct.Struct(">12sBBH")
_LOCAL, _PROXY = 0x20, 0x21
"""Version 2, and whether the connection is the load balancer's own or a client's."""
_ADDRESSES = {0x11: (IPv4Address, 4), 0x21: (IPv6Address, 16)}
"""The kinds of address and their sizes in bytes, by the family and the transport (TCP)."""
_PORTS_BYTES = 4
_MAX_BYTES = 4096
"""A load balancer may add values to the addresses, of which none has needed more than some hundred bytes."""


class ProxyHeader(NamedTuple):
    """The header at the beginning of a connection."""

    size: int
    """Its size in bytes, after which the client's bytes begin."""
    source: str | None
    """The client's IP address; None for the load balancer's own connections, and for other kinds of address."""


def read_proxy_header(data: bytes | bytearray) -> ProxyHeader | None:
    """Return the header that a connection begins with; None if more bytes are needed.

    Raises:
        Malformed: The connection begins with something else.
    """
    if not _SIGNATURE.startswith(data[: len(_SIGNATURE)]):
        raise Malformed("it does not begin with a PROXY header of version 2")
    if len(data) < _BEGINNING.size:
        return None
    _, command, family, length = _BEGINNING.unpack_from(data)
    size = _BEGINNING.size + length
    if command not in {_LOCAL, _PROXY} or size > _MAX_BYTES:
        raise Malformed(f"its PROXY header has the command {command:#x} and {size:,} bytes")
    if len(data) < size:
        return None
    if command == _LOCAL or family not in _ADDRESSES:
        return ProxyHeader(size, None)
    kind, width = _ADDRESSES[family]
    if length < 2 * width + _PORTS_BYTES:
        raise Malformed(f"its PROXY header has {length} bytes for two addresses")
    return ProxyHeader(size, str(kind(bytes(data[_BEGINNING.size : _BEGINNING.size + width]))))
