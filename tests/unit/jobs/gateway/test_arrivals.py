"""Connections from their acceptance: their number, and clients behind a load balancer."""

import asyncio
import logging
import socket
import ssl
import struct
from contextlib import suppress
from types import SimpleNamespace

import pytest

from jobs.gateway.arrivals import LoadBalancers, peer_of
from jobs.gateway.encryption import make_encryption
from jobs.gateway.listeners import Listener
from jobs.gateway.server import GatewayServer
from jobs.sandbox.broker import free_port
from quota.settings.gateway import GatewaySettings
from quota.settings.security.clients import Security
from tests.support.broker import Authority
from tests.support.load_balancer import ADDRESS, CLIENT, HEADER, LOCAL, load_balancer
from tests.support.waiting import eventually
from tests.unit.jobs.gateway.certificates import own_certificate
from tests.unit.quota.gateway.play import make_context

HOST = "127.0.0.1"
GARBAGE = b"\xff\xff\xff\xff"
HEADER_V1 = b"PROXY TCP4 203.0.113.7 127.0.0.3 54321 19092\r\n"

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(params=["plaintext", "TLS"])
def trusting(request, authority):
    """The TLS context of clients; None in plaintext."""
    return ssl.create_default_context(cafile=str(authority.path)) if request.param == "TLS" else None


@pytest.fixture
def seconds():
    """The time that a client has for what comes before its requests."""
    return 30.0


@pytest.fixture
def encrypted(authority, trusting):
    """The gateway's settings of TLS."""
    return own_certificate(authority) if trusting else {}


@pytest.fixture
def limits(seconds, most, monkeypatch):
    """The gateway's settings of limits."""
    monkeypatch.setattr("jobs.gateway.server._AUTHENTICATION_SECONDS", seconds)
    return {"max_connections": most}


@pytest.fixture
def most():
    """The maximum number of connections."""
    return 100


@pytest.fixture
async def gateway(protocol, encrypted, limits, caplog):
    """The address of a gateway and its counts."""
    caplog.set_level(logging.INFO)
    settings = GatewaySettings(load_balancers=[ADDRESS, "192.0.2.0/24"], **limits, **encrypted)
    encryption = make_encryption(settings, Security("PLAINTEXT"))
    server = GatewayServer(make_context(protocol), None, None, settings, encryption)
    port = free_port()
    async with await server._listen(Listener(port, ("kafka-1", 9092))):  # noqa: SLF001
        yield (HOST, port), server.context.stats


async def send(address, data, **options):
    """Send bytes as a client, and wait until the other side closes."""
    if options.get("ssl"):
        options["server_hostname"] = HOST
    reader, writer = await asyncio.open_connection(*address, **options)
    writer.write(data)
    await asyncio.wait_for(reader.read(), 20)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_client_is_known_by_the_address_that_its_load_balancer_names(gateway, trusting, in_pieces, caplog):
    server, stats = gateway
    with load_balancer(HOST, 0, server, in_pieces=in_pieces) as address:
        await send(address, GARBAGE, ssl=trusting)
    assert f"closing the connection of {CLIENT}: " in caplog.text
    assert stats.closed == {"size": 1}


async def test_others_connect_without_a_header_and_cannot_claim_an_address(gateway, trusting, caplog):
    server, stats = gateway
    for data in (GARBAGE, HEADER):
        await send(server, data, ssl=trusting)
    assert f"closing the connection of {HOST}: " in caplog.text
    assert CLIENT not in caplog.text
    assert stats.closed == {"size": 2}


@pytest.mark.parametrize("trusting", [None])
@pytest.mark.parametrize("header", [HEADER, HEADER_V1])
async def test_a_header_that_nobody_may_send_is_named(gateway, header, caplog):
    server, _ = gateway
    await send(server, header)
    message = f"closing the connection of {HOST}: a PROXY header, which only gateway.load_balancers may send"
    assert message in caplog.text


@pytest.mark.parametrize("own_address", [ADDRESS, HOST])
async def test_a_health_check_that_only_connects_is_no_failure(gateway, own_address):
    server, stats = gateway
    header = LOCAL if own_address == ADDRESS else b""
    reader, writer = await asyncio.open_connection(*server, local_addr=(own_address, 0))
    writer.write(header)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 20) == b""
    writer.close()
    assert stats.closed == {}


@pytest.mark.parametrize("trusting", ["TLS"], indirect=True)
async def test_a_client_that_leaves_within_its_handshake_is_counted(gateway, authority, caplog):
    server, stats = gateway
    hello, trusted = ssl.MemoryBIO(), ssl.create_default_context(cafile=str(authority.path))
    client = trusted.wrap_bio(ssl.MemoryBIO(), hello, server_hostname=HOST)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    reader, writer = await asyncio.open_connection(*server)
    writer.write(hello.read())
    writer.write_eof()
    await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert f"closing the connection of {HOST}: its TLS handshake failed: the connection ended" in caplog.text
    assert stats.closed == {"tls": 1}


@pytest.mark.parametrize("most", [1])
async def test_what_a_connection_beyond_the_maximum_sends_with_its_header_is_not_read(gateway, trusting):
    server, stats = gateway
    with load_balancer(HOST, 0, server) as address:
        first = asyncio.create_task(send(address, b"\0", ssl=trusting))
        await eventually(lambda: stats.client_bytes)
        with suppress(OSError):
            await send(address, GARBAGE, ssl=trusting)
        assert (stats.closed, stats.client_bytes) == ({"too_many": 1}, 1)
    with suppress(OSError):  # its load balancer has ended
        await first


@pytest.mark.parametrize(("most", "trusting"), [(1, "TLS")], indirect=["trusting"])
@pytest.mark.parametrize(("end", "seconds"), [("closed", 30.0), ("reset", 30.0), ("late", 1.5)])
@pytest.mark.parametrize("begun", [b"", HEADER[:20], b"\x16\x03\x01\x02\x00"], ids=["nothing", "header", "handshake"])
async def test_a_connection_counts_from_its_acceptance_until_it_ends(gateway, begun, end):
    """Also while its header or its handshake is awaited."""
    server, stats = gateway
    source = ADDRESS if begun.startswith(HEADER[:4]) else HOST
    with socket.create_connection(server, source_address=(source, 0)) as arriving:
        arriving.sendall(begun)
        await eventually(lambda: stats.connections == 1)
        with suppress(ConnectionResetError):
            await send(server, GARBAGE)
        assert stats.closed == {"too_many": 1}
        if end == "late":
            await eventually(lambda: stats.connections == 0)
        elif end == "reset":
            arriving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await eventually(lambda: stats.connections == 0)


@pytest.mark.parametrize("trusting", [None])
async def test_a_load_balancer_that_sends_no_header_is_refused(gateway, caplog):
    server, stats = gateway
    for data in (GARBAGE, HEADER_V1):
        with suppress(ConnectionResetError):
            await send(server, data, local_addr=(ADDRESS, 0))
    assert f"closing the connection of {ADDRESS}: it does not begin with a PROXY header of version 2" in caplog.text
    assert stats.closed == {"load_balancer": 2}


@pytest.mark.parametrize(("trusting", "seconds"), [(None, 0.3)])
async def test_a_load_balancer_that_is_late_is_refused_and_one_that_leaves_is_forgotten(gateway, caplog):
    server, stats = gateway
    with socket.socket() as leaving:
        leaving.bind((ADDRESS, 0))
        leaving.connect(server)
        leaving.sendall(HEADER[:20])
    await send(server, HEADER[:20], local_addr=(ADDRESS, 0))
    refused = [record for record in caplog.records if "its PROXY header is late" in record.getMessage()]
    assert [(record.levelname, ADDRESS in record.getMessage()) for record in refused] == [("WARNING", True)]
    assert stats.closed == {"load_balancer": 1}


@pytest.mark.parametrize(
    ("peer", "is_one"),
    [
        ("10.0.1.7", True),
        ("10.0.2.7", False),
        ("192.0.2.1", True),
        ("2001:db8::1", True),
        ("fe80::1%eth0", True),
        ("2001:db9::1", False),
        ("unknown", False),
    ],
)
async def test_a_load_balancer_is_one_of_the_addresses_and_networks(peer, is_one):
    assert (peer in LoadBalancers(["10.0.1.0/24", "192.0.2.1", "2001:db8::/32", "fe80::/10"])) is is_one


@pytest.mark.parametrize(
    ("names", "peer"),
    [
        (("10.0.1.7", 9), "10.0.1.7"),
        (("::ffff:10.0.1.7", 9, 0, 0), "10.0.1.7"),
        (("2001:db8::1", 9, 0, 0), "2001:db8::1"),
        (("fe80::1%eth0", 9, 0, 2), "fe80::1%eth0"),
        (("::ffff:0:a00:107", 9, 0, 0), "::ffff:0:a00:107"),
        (None, "unknown"),
    ],
)
async def test_an_address_of_ipv4_has_one_form_also_on_a_socket_of_ipv6(names, peer):
    assert peer_of(SimpleNamespace(get_extra_info=lambda _: names)) == peer
