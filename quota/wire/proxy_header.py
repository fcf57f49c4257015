"""The header by which a load balancer names its client: the PROXY protocol, version 2.

Source: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2.
"""

import struct
from ipaddress import IPv4Address, IPv6Address

from quota.wire.primitives import Malformed

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_BEGINNING = struct.Struct(">12sBBH")
_LOCAL, _PROXY = 0x20, 0x21
"""Version 2, and whether the connection is the load balancer's own or a client's."""
_ADDRESSES: dict[int, tuple[type[IPv4Address | IPv6Address], int]] = {0x11: (IPv4Address, 4), 0x21: (IPv6Address, 16)}
"""The kinds of address and their sizes in bytes, by the family and the transport (TCP)."""
_PORTS_BYTES = 4
_MAX_BYTES = 4096
"""A load balancer may add values to the addresses; known ones add some hundred bytes."""

AS_REQUEST_LENGTHS = frozenset({int.from_bytes(_SIGNATURE[:4]), int.from_bytes(b"PROX")})
"""The first four bytes of a header, of version 1 and 2, read as the length of a request."""


def missing_bytes(received: bytes | bytearray) -> int:
    """Return how many more bytes of the header are known to follow; 0 if it is complete.

    A `Malformed` says that the connection begins with something else.
    """
    if not _SIGNATURE.startswith(received[: len(_SIGNATURE)]):
        raise Malformed("it does not begin with a PROXY header of version 2")
    if len(received) < _BEGINNING.size:
        return _BEGINNING.size - len(received)
    _, command, family, length = _BEGINNING.unpack_from(received)
    size = _BEGINNING.size + length
    if command not in {_LOCAL, _PROXY} or size > _MAX_BYTES:
        raise Malformed(f"its PROXY header has the command {command:#x} and {size:,} bytes")
    if command == _PROXY and family in _ADDRESSES and length < 2 * _ADDRESSES[family][1] + _PORTS_BYTES:
        raise Malformed(f"its PROXY header has {length} bytes for two addresses")
    return int(size) - len(received)


def source_of(header: bytes | bytearray) -> str | None:
    """Return the IP address of the client that a complete header names.

    It is None for the load balancer's own connections, such as health checks, and for other kinds of address.
    """
    _, command, family, _ = _BEGINNING.unpack_from(header)
    if command == _LOCAL or family not in _ADDRESSES:
        return None
    kind, width = _ADDRESSES[family]
    return str(unmapped(kind(bytes(header[_BEGINNING.size : _BEGINNING.size + width]))))


def unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an address of IPv6 stands for; any other one as it is."""
    return getattr(address, "ipv4_mapped", None) or address
