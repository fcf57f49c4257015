"""What a gateway buffers on real sockets, for a broker and for clients that read nothing."""

import asyncio
import socket
import ssl
import struct
import time
from contextlib import asynccontextmanager

import pytest

from jobs.gateway import buffers
from jobs.gateway.encryption import Encryption, make_encryption
from jobs.gateway.listeners import Listener
from jobs.gateway.server import GatewayServer
from jobs.sandbox.broker import free_port
from quota.settings.gateway import GatewaySettings
from quota.settings.security.clients import Security
from tests.support.broker import Authority
from tests.support.waiting import eventually
from tests.unit.gateway.play import make_context

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
    """Reads requests and responds once it may."""

    def __init__(self):
        self.may_read = asyncio.Event()
        self.received = 0

    async def serve(self, reader, writer):
        narrow(writer.transport)
        await reader.readexactly(len(BEGIN))
        await self.may_read.wait()
        await reader.readexactly(ONE - len(BEGIN))
        self.received += ONE
        await flood(writer, struct.pack(">ii", ONE - 4, 1) + bytes(ONE - 8))
        writer.close()


def narrow(transport):
    """Have the kernel buffer little."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, SMALL)


async def flood(writer, data):
    """Write data as it is taken."""
    for begin in range(0, len(data), SMALL):
        writer.write(data[begin : begin + SMALL])
        await writer.drain()


async def settled(made):
    """Return what the gateway buffers when this has not changed for half a second."""
    seen, since = -1, time.monotonic()
    async with asyncio.timeout(60):
        while time.monotonic() < since + 0.5:
            made._relieve()  # noqa: SLF001 as `serve` does
            if made.buffers.total != seen:
                seen, since = made.buffers.total, time.monotonic()
            await asyncio.sleep(0.02)
    return seen


@asynccontextmanager
async def running(gateway_protocol, tmp_path, *, tls):
    """Yield a gateway, its broker, and clients that are connected to it."""
    settings, encryption, broker_tls, client_tls = GatewaySettings(), Encryption(), None, None
    if tls:
        authority = Authority(tmp_path / "authority")
        own = authority.sign("any", HOST)
        settings = GatewaySettings(ssl_certificate_location=str(own.path), ssl_key_location=str(own.key))
        encryption = make_encryption(settings, Security("SASL_SSL", ssl_ca=authority.path.read_text()))
        client_tls, broker_tls = ssl.create_default_context(cafile=str(authority.path)), encryption.clients
    broker, port, listening = Broker(), free_port(), free_port()
    made = GatewayServer(make_context(gateway_protocol), None, None, settings, encryption, None)
    async with (
        await asyncio.start_server(broker.serve, HOST, port, ssl=broker_tls, limit=SMALL),
        await made._listen(Listener(listening, (HOST, port))),  # noqa: SLF001
    ):
        clients = []
        for _ in range(CLIENTS):
            reader, writer = await asyncio.open_connection(HOST, listening, ssl=client_tls, limit=SMALL)
            narrow(writer.transport)
            writer.write(BEGIN)
            clients.append((reader, writer))
        connections = made._connections.values()  # noqa: SLF001
        await eventually(lambda: sum(each._broker is not None for each in connections) == CLIENTS)  # noqa: SLF001
        for each in connections:
            narrow(each._transport)  # noqa: SLF001
            narrow(each._broker.transport)  # noqa: SLF001
        yield made, broker, clients
        for _, writer in clients:
            writer.close()
        await eventually(lambda: not made._connections)  # noqa: SLF001


@pytest.fixture
def limited(monkeypatch):
    """The limit of these tests; those of all transports are set back."""
    monkeypatch.setattr(buffers, "_MAX_BYTES", LIMIT)
    monkeypatch.setattr(buffers, "_RELIEVED_BYTES", LIMIT * 3 // 4)
    yield
    buffers.limit_received(crowded=False)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.usefixtures("limited")
async def test_all_connections_together_buffer_little_for_peers_that_do_not_read(gateway_protocol, tmp_path, tls):
    """First for a hung broker, then for clients that do not read; nothing is lost, and then all is as before."""
    most = LIMIT + CLIENTS * 3 * buffers.CROWDED_BYTES
    async with running(gateway_protocol, tmp_path, tls=tls) as (made, broker, clients):
        sending = [asyncio.ensure_future(flood(writer, bytes(ONE - len(BEGIN)))) for _, writer in clients]
        await eventually(lambda: made.buffers.is_crowded)
        for_the_broker = await settled(made)
        broker.may_read.set()
        await asyncio.gather(*sending)
        await eventually(lambda: broker.received == CLIENTS * ONE)
        await eventually(lambda: made.buffers.is_crowded)
        for_the_clients = await settled(made)
        assert max(for_the_broker, for_the_clients) < most
        responses = await asyncio.gather(*(reader.readexactly(ONE) for reader, _ in clients))
        assert {len(response) for response in responses} == {ONE}
        assert (await settled(made), made.buffers.is_crowded) == (0, False)
        paused = [each for each in made._connections.values() if not each._reading]  # noqa: SLF001
        assert not paused
