"""Connections from their acceptance: their number, and their TLS."""

import asyncio
import logging
import socket
import ssl
import struct
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import pytest

from jobs.gateway import arrivals
from jobs.gateway.arrivals import peer_of
from jobs.gateway.encryption import make_encryption
from jobs.gateway.server import GatewayServer
from jobs.sandbox.broker import free_port
from quota.settings.connection import Security
from quota.settings.jobs import GatewaySettings
from tests.support.waiting import eventually
from tests.unit.jobs.gateway.conftest import own_certificate, unchanging
from tests.unit.quota.gateway.play import make_context

HOST = "127.0.0.1"
GARBAGE = b"\xff\xff\xff\xff"

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["plaintext", "TLS"])
def trusting(request, authority):
    """The TLS context of clients; None in plaintext."""
    return ssl.create_default_context(cafile=str(authority.path)) if request.param == "TLS" else None


@pytest.fixture
def limits():
    """The time that a client has for its handshake [s], and the maximum number of connections."""
    return 30.0, 100


@pytest.fixture
def settings(authority, trusting, limits, monkeypatch):
    """The gateway's settings."""
    seconds, most = limits
    monkeypatch.setattr("jobs.gateway.server._AUTHENTICATION_SECONDS", seconds)
    return GatewaySettings(max_connections=most, **(own_certificate(authority) if trusting else {}))


@pytest.fixture
async def gateway(protocol, settings, caplog):
    """The address of a gateway and its counts."""
    caplog.set_level(logging.INFO)
    encryption = make_encryption(settings, unchanging(Security()))
    server = GatewayServer(make_context(protocol), None, None, settings, encryption)
    port = free_port()
    async with await server._listen(port):  # noqa: SLF001
        yield (HOST, port), server.context.stats


async def send(address, data):
    """Send bytes as a client, and wait until the other side closes."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    await asyncio.wait_for(reader.read(), 20)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def test_a_load_balancers_header_closes_the_connection(gateway, trusting, caplog):
    server, stats = gateway
    await send(server, bytes.fromhex("0D0A0D0A000D0A515549540A 21 11 000C CB007107 7F000003 D431 4A94"))
    why = "its TLS handshake failed: wrong version number" if trusting else "a PROXY header, which the gateway does not"
    assert f"closing the connection of {HOST}: {why}" in caplog.text
    assert stats.closed == {"tls" if trusting else "size": 1}


async def test_a_health_check_that_only_connects_is_no_failure(gateway):
    server, stats = gateway
    reader, writer = await asyncio.open_connection(*server)
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


@pytest.mark.parametrize("trusting", ["TLS"], indirect=True)
async def test_few_handshakes_are_under_way_at_a_time_and_the_others_follow(gateway, trusting, monkeypatch):
    """Each client waits for its turn, unless it leaves; one that does not go on holds nobody up for long."""
    monkeypatch.setattr(arrivals, "_MOST_HANDSHAKES", 1)
    monkeypatch.setattr(arrivals, "_HANDSHAKE_SECONDS", 0.2)
    server, stats = gateway
    hello = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        trusting.wrap_bio(ssl.MemoryBIO(), hello, server_hostname=HOST).do_handshake()
    begun = hello.read()
    with ExitStack() as stack:
        stuck, leaving = (stack.enter_context(socket.create_connection(server)) for _ in range(2))
        for one in (stuck, leaving):
            one.setblocking(False)
            one.sendall(begun)
        await eventually(lambda: stats.connections == 2)
        opened = [asyncio.open_connection(*server, ssl=trusting) for _ in range(3)]
        assert await asyncio.get_running_loop().sock_recv(stuck, 1)
        with pytest.raises(BlockingIOError):
            leaving.recv(1)
        leaving.close()
        for _, writer in await asyncio.gather(*opened):
            writer.close()
    await eventually(lambda: stats.connections == 0)


@pytest.mark.parametrize("trusting", ["TLS"], indirect=True)
@pytest.mark.parametrize(("begun", "sent"), [(b"\x16", b""), (b"\x16\x03\x01\x3f\xff", bytes(1000))])
async def test_a_client_that_sends_a_part_of_its_hello_takes_no_turn(gateway, trusting, monkeypatch, begun, sent):
    """A hundred a second, which cost nothing, would keep all others from theirs."""
    monkeypatch.setattr(arrivals, "_MOST_HANDSHAKES", 1)
    monkeypatch.setattr(arrivals, "_HANDSHAKE_SECONDS", 60.0)
    server, stats = gateway
    with socket.create_connection(server) as partial:
        partial.sendall(begun)
        await eventually(lambda: stats.connections == 1)
        partial.sendall(sent)
        _, writer = await asyncio.wait_for(asyncio.open_connection(*server, ssl=trusting), 10)
        writer.close()
    await eventually(lambda: stats.connections == 0)


@pytest.mark.parametrize("trusting", ["TLS"], indirect=True)
@pytest.mark.parametrize(("end", "limits"), [("closed", (30.0, 1)), ("reset", (30.0, 1)), ("late", (1.5, 1))])
@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00"], ids=["nothing", "handshake"])
async def test_a_connection_counts_from_its_acceptance_until_it_ends(gateway, begun, end):
    """Also while its handshake is awaited."""
    server, stats = gateway
    with socket.create_connection(server) as arriving:
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
