"""What a gateway buffers on real sockets, for a broker and for clients that read nothing."""

import asyncio
import socket
import ssl
import struct
import threading
import time
from asyncio.sslproto import SSLProtocol
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from jobs.gateway import buffers
from jobs.gateway.encryption import Encryption, make_encryption
from jobs.gateway.server import GatewayServer, Listener
from jobs.sandbox.broker import free_port
from quota.settings.connection import Security
from quota.settings.jobs import GatewaySettings
from tests.support.waiting import eventually
from tests.unit.jobs.gateway.conftest import own_certificate, unchanging
from tests.unit.quota.gateway.play import make_context

pytestmark = pytest.mark.anyio

HOST = "127.0.0.1"
KIBIBYTE = 1024
CLIENTS, LIMIT, ONE = 16, 256 * KIBIBYTE, 768 * KIBIBYTE
"""Clients, what the gateway buffers for all of them, and what each sends or is sent: more than the limit together."""
SMALL = 32 * KIBIBYTE
"""What kernels buffer, so that the gateway would."""
BEGIN = struct.pack(">ihhih", ONE - 4, 1, 4, 1, -1)
"""Of a Fetch, which is forwarded as it arrives."""


class Broker:
    """Reads what begins a request, and its rest once it may; responds by as much."""

    def __init__(self):
        self.may_read = asyncio.Event()
        self.begun = self.received = self.connections = 0

    async def serve(self, reader, writer):
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readexactly(len(BEGIN))
            self.begun += 1
            await self.may_read.wait()
            await reader.readexactly(ONE - len(BEGIN))
            self.received += ONE
            await flood(writer, struct.pack(">ii", ONE - 4, 1) + bytes(ONE - 8))
            await reader.read()
        writer.close()
        self.connections -= 1


async def flood(writer, data, piece=SMALL, seconds=0.0):
    """Write data as it is taken, in pieces, with a time between them."""
    for begin in range(0, len(data), piece):
        writer.write(data[begin : begin + piece])
        await writer.drain()
        await asyncio.sleep(seconds)


def transports(made):
    """Return the transports of clients and to brokers."""
    both = [(each._transport, each._broker.transport) for each in made.connections if each._broker]  # noqa: SLF001
    return [transport for pair in both for transport in pair]


def every(made):
    """Return all transports, also those below TLS."""
    found = transports(made)
    layers = [each._ssl_protocol for each in found if hasattr(each, "_ssl_protocol")]  # noqa: SLF001
    return found + [each._transport for each in layers]  # noqa: SLF001


def limits(made):
    """Return the limits of what is not sent, and of what TLS holds."""
    found = {each.get_write_buffer_limits() for each in every(made)}
    return found | {each.get_read_buffer_limits() for each in every(made) if hasattr(each, "get_read_buffer_limits")}


async def settled(made):
    """Return what the gateway buffers when this has not changed for half a second."""
    seen, since = -1, time.monotonic()
    async with asyncio.timeout(60):
        while time.monotonic() < since + 0.5:
            if made.connections.buffers.total != seen:
                seen, since = made.connections.buffers.total, time.monotonic()
            await asyncio.sleep(0.02)
    return seen


@dataclass
class Served:
    """A gateway that serves, its broker, and clients that have begun a request."""

    made: GatewayServer
    broker: Broker
    clients: list
    tls: ssl.SSLContext | None
    serving: asyncio.Task

    @property
    def is_crowded(self):
        return self.made.connections.buffers.is_crowded

    async def connect(self):
        """Connect one more client, and begin its request."""
        port = next(iter(self.made.connections.brokers))
        connected = await asyncio.open_connection(HOST, port, ssl=self.tls, limit=SMALL)
        connected[1].write(BEGIN)
        self.clients.append(connected)

    async def fill(self, *pieces):
        """Have the clients send their requests until the gateway buffers too much; see `flood`."""
        rest = bytes(ONE - len(BEGIN))
        sending = [asyncio.ensure_future(flood(writer, rest, *pieces)) for _, writer in self.clients]
        await eventually(lambda: self.is_crowded)
        return asyncio.gather(*sending, return_exceptions=True)


@asynccontextmanager
async def served(protocol, authority, tls):
    """Yield a gateway with clients, which the kernel gives little space to send."""
    first = {"first_port": free_port()}
    settings, encryption, broker_tls, client_tls = GatewaySettings(**first), Encryption(), None, None
    if tls:
        settings = GatewaySettings(**first, **own_certificate(authority))
        encryption = make_encryption(settings, unchanging(Security("SASL_SSL", ssl_ca=authority.path.read_text())))
        client_tls, broker_tls = ssl.create_default_context(cafile=str(authority.path)), encryption.clients
        client_tls.maximum_version = tls
    broker, port, stop = Broker(), free_port(), threading.Event()
    made = GatewayServer(make_context(protocol), None, None, settings, encryption)
    async with await asyncio.start_server(broker.serve, HOST, port, ssl=broker_tls, limit=SMALL):
        serving = asyncio.ensure_future(made.serve([Listener(settings.first_port, (HOST, port))], stop))
        await eventually(lambda: made.connections.brokers)
        scene = Served(made, broker, [], client_tls, serving)
        try:
            for _ in range(CLIENTS):
                await scene.connect()
            await eventually(lambda: broker.begun == CLIENTS)
            for transport in transports(made):
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
            yield scene
        finally:
            for _, writer in scene.clients:
                writer.transport.abort()
            stop.set()
            await serving
            broker.may_read.set()
            await eventually(lambda: not (made.connections or broker.connections))


@pytest.fixture
def limited(monkeypatch):
    """The limit of these tests; those of all transports are set back."""
    monkeypatch.setattr(buffers, "_MAX_BYTES", LIMIT)
    monkeypatch.setattr(buffers, "_RELIEVED_BYTES", LIMIT * 3 // 4)
    yield
    buffers.limit_received(crowded=False)


TLS = [None, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("tls", TLS, ids=str)
@pytest.mark.usefixtures("limited")
async def test_all_connections_together_buffer_little_for_peers_that_do_not_read(protocol, authority, tls, monkeypatch):
    """First for a hung broker, then for clients that do not read; others are served, and then all is as before."""
    most = LIMIT + CLIENTS * 3 * buffers.CROWDED_BYTES
    async with served(protocol, authority, tls) as scene:
        made, broker, clients = scene.made, scene.broker, scene.clients
        before = limits(made)
        monkeypatch.setattr(buffers, "_RELIEVED_BYTES", -1)  # what kernels take later is no relief
        sending = await scene.fill()
        assert limits(made) == {(0, 1)}
        for_the_broker = await settled(made)
        assert for_the_broker >= sum(each.get_write_buffer_size() for each in every(made))
        await scene.connect()
        await eventually(lambda: broker.begun == CLIENTS + 1)
        assert limits(made) == {(0, 1)}
        _, writer = clients.pop()
        writer.transport.abort()
        monkeypatch.setattr(buffers, "_RELIEVED_BYTES", LIMIT * 3 // 4)
        broker.may_read.set()
        await sending
        await eventually(lambda: broker.received == CLIENTS * ONE)
        await eventually(lambda: scene.is_crowded)
        for_the_clients = await settled(made)
        assert max(for_the_broker, for_the_clients) < most
        responses = await asyncio.gather(*(reader.readexactly(ONE) for reader, _ in clients))
        assert {len(response) for response in responses} == {ONE}
        await eventually(lambda: not scene.is_crowded)
        await eventually(lambda: made.context.stats.buffered_bytes == 0)
        assert limits(made) == before


@pytest.mark.parametrize("tls", TLS, ids=str)
@pytest.mark.usefixtures("limited")
async def test_connections_that_are_lost_at_once_do_not_end_the_gateway(protocol, authority, tls, monkeypatch):
    """Between the end of a transport and that of its connection, the gateway is no longer crowded."""
    async with served(protocol, authority, tls) as scene:
        sending = await scene.fill(3000, 0.003)  # TLS holds some of them
        await settled(scene.made)
        monkeypatch.setattr(buffers, "_RELIEVED_BYTES", 10 * CLIENTS * ONE)
        for connection in scene.made.connections:
            connection.abort()
        await asyncio.sleep(0)
        scene.made.connections.update_buffers()  # as `serve` does
        assert not scene.is_crowded
        await eventually(lambda: scene.made.connections.buffers.total == 0)
        await sending
        assert not scene.serving.done()


async def test_no_two_event_loops_receive_into_the_same_buffer():
    """Another thread's loop receives while this one's waits for the interpreter, and would overwrite its record."""
    buffers.share_tls_buffer()

    def received_into():
        return [SSLProtocol.__new__(SSLProtocol).get_buffer(-1).obj for _ in range(2)]

    (one, same), (other, _) = received_into(), await asyncio.to_thread(received_into)
    assert one is same
    assert one is not other


@pytest.mark.parametrize(("tls", "most"), [(TLS[0], 64 * KIBIBYTE), (TLS[1], 128 * KIBIBYTE)], ids=str)
async def test_a_busy_connection_has_128_kib_relayed_and_then_others_have_their_turn(protocol, authority, tls, most):
    """A loop that relays more at once, of some connections one after the other, delays all others as long."""
    buffers.share_tls_buffer()
    async with served(protocol, authority, tls) as scene:
        relayed = []
        for connection in scene.made.connections:
            take = connection.channel.from_client
            connection.channel.from_client = lambda data, take=take: (relayed.append(len(data)), take(data))
        scene.broker.may_read.set()
        rest = [flood(writer, bytes(ONE - len(BEGIN)), ONE) for _, writer in scene.clients]
        await asyncio.gather(*rest, *(reader.readexactly(ONE) for reader, _ in scene.clients))
    assert sum(relayed) == CLIENTS * (ONE - len(BEGIN))
    assert max(relayed) <= most
