"""A gateway's addresses, and the limits of its connections."""

import asyncio
import socket
import ssl
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from jobs.gateway.encryption import Encryption, make_encryption
from jobs.gateway.listeners import Listener
from jobs.gateway.server import GatewayServer
from jobs.sandbox.broker import free_port
from quota.errors import BadInput
from quota.settings.connection import Security
from quota.settings.gateway import GatewaySettings
from tests.support.broker import Authority
from tests.support.waiting import eventually
from tests.unit.jobs.gateway.certificates import own_certificate
from tests.unit.quota.gateway.play import make_context


def connection(peer="192.0.2.1"):
    return SimpleNamespace(channel=object(), peer=peer)


def test_a_connection_beyond_the_maximum_is_rejected_until_another_is_closed(protocol):
    """Each counts from its acceptance until its end, also if that is reported twice, or comes before its opening."""
    made = GatewayServer(make_context(protocol), None, None, GatewaySettings(max_connections=2), Encryption())
    first = connection()
    reason = "there are more than gateway.max_connections=2"
    assert [made.accepted() for _ in range(3)] == [None, None, reason]
    made.left()
    made.opened(first)
    assert made.context.stats.connections == 2
    made.closed(first)
    made.closed(first)
    assert [made.accepted(), made.accepted()] == [None, reason]
    assert (made.context.stats.connections, made.context.stats.accepted) == (3, 5)


def test_a_request_that_drips_in_is_closed_after_a_minute(protocol, monkeypatch):
    made = GatewayServer(make_context(protocol), None, None, GatewaySettings(), Encryption())
    closed = []
    dripping = SimpleNamespace(
        channel=Mock(is_waiting=False),
        closing_at=None,
        is_authenticated=True,
        is_receiving_request=True,
        request_at=1000.0,
        active_at=1060.0,
        end=lambda reason, message: closed.append((reason, message)),
    )
    made.accepted()
    made.opened(dripping)
    for now in (1060.0, 1061.0):
        monkeypatch.setattr("jobs.gateway.server.time.monotonic", lambda now=now: now)
        made._close_idle()  # noqa: SLF001
    assert closed == [("slow_request", "a request has not arrived completely in 60 s")]


@pytest.mark.anyio
async def test_a_client_that_does_not_end_its_tls_does_not_keep_a_stopping_gateway(protocol, tmp_path, monkeypatch):
    """`asyncio` would wait for it for half a minute."""
    monkeypatch.setattr("jobs.gateway.server._CLOSE_SECONDS", 0.2)
    authority = Authority(tmp_path / "authority")
    settings = GatewaySettings(**own_certificate(authority))
    encryption = make_encryption(settings, Security("PLAINTEXT"))
    made = GatewayServer(make_context(protocol), None, None, settings, encryption)
    port = free_port()
    async with await made._listen(Listener(port, ("kafka-1", 9092))):  # noqa: SLF001
        plain = socket.create_connection(("127.0.0.1", port), 5)
        client = ssl.create_default_context(cafile=str(authority.path))
        with await asyncio.to_thread(client.wrap_socket, plain, server_hostname="127.0.0.1"):
            await eventually(lambda: made._connections)  # noqa: SLF001 its handshake is done
            await asyncio.wait_for(made._drain(), 15)  # noqa: SLF001
            assert not made.context.stats.connections


@pytest.mark.anyio
@pytest.mark.parametrize("address", ["127.0.0.1", "::"])
async def test_gateways_that_share_a_port_each_get_connections(protocol, address):
    """One that is not to share a port does not get it."""
    port = free_port()

    def made(*, reuse_port=True):
        settings = GatewaySettings(address=address, advertised_host="gw", reuse_port=reuse_port)
        return GatewayServer(make_context(protocol), None, None, settings, Encryption())

    servers = [made(), made()]
    listener = Listener(port, ("kafka-1", 9092))
    listening = [await server._listen(listener) for server in servers]  # noqa: SLF001
    async with listening[0], listening[1]:
        with pytest.raises(BadInput, match=r"gateway\.reuse_port=true for all gateways that share them"):
            await made(reuse_port=False)._listen(listener)  # noqa: SLF001
        clients = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(64)]
        await eventually(lambda: sum(server.context.stats.accepted for server in servers) == len(clients))
        assert all(server.context.stats.accepted for server in servers)
        for client in clients:
            client.close()


@pytest.mark.anyio
async def test_all_addresses_are_those_of_ipv6_and_of_ipv4(protocol):
    settings = GatewaySettings(address="::", advertised_host="gw")
    made = GatewayServer(make_context(protocol), None, None, settings, Encryption())
    port = free_port()
    async with await made._listen(Listener(port, ("kafka-1", 9092))):  # noqa: SLF001
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), 5).close()
        with pytest.raises(BadInput, match=f":::{port} is in use"):
            await made._listen(Listener(port, ("kafka-2", 9092)))  # noqa: SLF001
