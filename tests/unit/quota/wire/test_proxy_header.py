"""The PROXY header of a load balancer, byte by byte from the protocol's specification."""

import pytest

from quota.wire.primitives import Malformed
from quota.wire.proxy_header import missing_bytes, source_of

SIGNATURE = bytes.fromhex("0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A")
IPV4 = SIGNATURE + bytes.fromhex("21 11 000C CB007107 0A000001 D431 4A94")
IPV6 = SIGNATURE + bytes.fromhex(
    "21 21 0024 20010DB8000000000000000000000007 20010DB8000000000000000000000001 D431 4A94"
)
WITH_VALUES = SIGNATURE + bytes.fromhex("21 11 0014 CB007107 0A000001 D431 4A94 EA 0005 0102030405")
MAPPED = SIGNATURE + bytes.fromhex(
    "21 21 0024 00000000000000000000FFFFCB007107 00000000000000000000FFFF0A000001 D431 4A94"
)
LOCAL = SIGNATURE + bytes.fromhex("20 00 0000")
LOCAL_WITH_ADDRESSES = SIGNATURE + bytes.fromhex("20 11 000C CB007107 0A000001 D431 4A94")
UNIX = SIGNATURE + bytes.fromhex("21 31 00D8") + bytes(216)


@pytest.mark.parametrize(
    ("header", "source"),
    [
        pytest.param(IPV4, "203.0.113.7", id="IPv4"),
        pytest.param(IPV6, "2001:db8::7", id="IPv6"),
        pytest.param(MAPPED, "203.0.113.7", id="IPv4 in IPv6"),
        pytest.param(WITH_VALUES, "203.0.113.7", id="with values"),
        pytest.param(LOCAL, None, id="the load balancer's own"),
        pytest.param(LOCAL_WITH_ADDRESSES, None, id="the load balancer's own, with addresses"),
        pytest.param(UNIX, None, id="Unix"),
    ],
)
def test_the_client_is_known_once_the_header_is_complete(header, source):
    for size in range(len(header)):
        missing = missing_bytes(header[:size])
        assert missing == (16 if size < 16 else len(header)) - size
    assert missing_bytes(bytearray(header)) == 0
    assert source_of(bytearray(header)) == source


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"\x16", "it does not begin with a PROXY header of version 2", id="TLS"),
        pytest.param(b"PROXY TCP4 203.0.113.7", "it does not begin with a PROXY header of version 2", id="version 1"),
        pytest.param(SIGNATURE[:11] + b"\x0b", "it does not begin", id="almost"),
        pytest.param(SIGNATURE + b"\x11\x11\0\0", "its PROXY header has the command 0x11 and 16 bytes", id="version"),
        pytest.param(SIGNATURE + b"\x22\x11\0\0", "the command 0x22", id="command"),
        pytest.param(SIGNATURE + b"\x21\x11\xff\xff", "the command 0x21 and 65,551 bytes", id="long"),
        pytest.param(SIGNATURE + b"\x21\x11\0\x0b" + bytes(11), "has 11 bytes for two addresses", id="short IPv4"),
        pytest.param(SIGNATURE + b"\x21\x21\0\x0c" + bytes(12), "has 12 bytes for two addresses", id="short IPv6"),
    ],
)
def test_anything_else_is_malformed(data, why):
    with pytest.raises(Malformed, match=why):
        missing_bytes(data)
