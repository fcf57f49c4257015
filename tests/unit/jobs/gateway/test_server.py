"""A gateway's ports, their brokers, the addresses that clients get, and the limits of connections."""

import asyncio
import socket
import ssl
import threading
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from jobs.gateway.brokers import follow_brokers
from jobs.gateway.connection import Connections
from jobs.gateway.encryption import Encryption, make_encryption
from jobs.gateway.server import GatewayServer, Listener, plan_listeners
from jobs.sandbox.broker import free_port
from quota.errors import BadInput, ClusterError
from quota.gateway.addresses import Addresses
from quota.settings.connection import Security
from quota.settings.jobs import GatewaySettings
from tests.support.scripted_broker import ScriptedBroker
from tests.support.waiting import eventually
from tests.support.wire_client import WireClient
from tests.unit.jobs.gateway.conftest import own_certificate, unchanging
from tests.unit.quota.gateway.play import make_context


def connection(peer="192.0.2.1"):
    return SimpleNamespace(channel=object(), peer=peer)


def test_a_connection_beyond_the_maximum_is_rejected_until_another_is_closed(protocol):
    """Each counts from its acceptance until its end, also if that is reported twice, or comes before its opening."""
    made = Connections(make_context(protocol), None, None, Encryption(), 2)
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
        channel=Mock(is_waiting=False, stands_in=False),
        closing_at=None,
        is_receiving_request=True,
        request_at=1000.0,
        active_at=1060.0,
        end=lambda reason, message: closed.append((reason, message)),
    )
    made.connections.accepted()
    made.connections.opened(dripping)
    for now in (1060.0, 1061.0):
        monkeypatch.setattr("jobs.gateway.server.time.monotonic", lambda now=now: now)
        made._close_idle()  # noqa: SLF001
    assert closed == [("slow_request", "a request has not arrived completely in 60 s")]


@pytest.mark.anyio
async def test_a_client_that_does_not_end_its_tls_does_not_keep_a_stopping_gateway(protocol, authority, monkeypatch):
    """`asyncio` would wait for it for half a minute."""
    monkeypatch.setattr("jobs.gateway.server._CLOSE_SECONDS", 0.2)
    settings = GatewaySettings(**own_certificate(authority))
    encryption = make_encryption(settings, unchanging(Security()))
    made = GatewayServer(make_context(protocol), None, None, settings, encryption)
    port = free_port()
    async with await made._listen(port):  # noqa: SLF001
        plain = socket.create_connection(("127.0.0.1", port), 5)
        client = ssl.create_default_context(cafile=str(authority.path))
        with await asyncio.to_thread(client.wrap_socket, plain, server_hostname="127.0.0.1"):
            await eventually(lambda: made.connections)  # its handshake is done
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
    listening = [await server._listen(port) for server in servers]  # noqa: SLF001
    async with listening[0], listening[1]:
        with pytest.raises(BadInput, match=r"gateway\.reuse_port=true for all gateways that share them"):
            await made(reuse_port=False)._listen(port)  # noqa: SLF001
        clients = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(64)]
        await eventually(lambda: sum(server.context.stats.accepted for server in servers) == len(clients))
        assert all(server.context.stats.accepted for server in servers)
        for client in clients:
            client.close()


@pytest.mark.anyio
async def test_of_two_brokers_whose_node_ids_have_one_port_the_second_gets_none(protocol, monkeypatch, caplog):
    """Otherwise the port would lead to one and then to the other; it is free again once the first has gone."""
    monkeypatch.setattr("jobs.gateway.server.CHECK_SECONDS", 0.001)
    first = free_port() - 999
    server = GatewayServer(make_context(protocol), None, None, GatewaySettings(first_port=first), Encryption())
    server.context.stats.is_serving = True
    zero, thousand = ("kafka-0", 9092), ("kafka-1000", 9092)
    advertised, asked = {0: zero}, Counter()

    async def ask(broker):
        asked[broker] += 1
        return dict(advertised)

    following = asyncio.create_task(server.follow_joins([zero], ask))
    await eventually(lambda: server.serves(0, zero))
    advertised[1000] = thousand
    seen = asked.total()
    await eventually(lambda: asked.total() > seen + 10)
    assert (server.serves(0, zero), server.serves(1000, thousand)) == (True, False)
    del advertised[0]
    await eventually(lambda: server.serves(1000, thousand))
    following.cancel()
    server._servers[first + 999].close()  # noqa: SLF001
    error = "1000 has no port of this gateway: the brokers with node ids 0 and 1000 would have one port; give gateway."
    assert caplog.text.count(error) == 1


NO_BROKERS = {"throttleTimeMs": 0, "brokers": [], "clusterId": None, "controllerId": -1, "topics": []}
ASKED = {"topics": [], "allowAutoTopicCreation": False}
ADVERTISED = {2: ("kafka-2", 9092), 1: ("kafka-1", 9092), 5: ("kafka-5", 9093)}


def test_a_brokers_port_follows_from_its_node_id_alone(caplog):
    """A broker that is down at a start shifts no other; responses are rewritten."""
    settings = GatewaySettings(first_port=20_000, advertised_host="gw")
    listeners, addresses = plan_listeners(settings, ADVERTISED)
    assert listeners == [
        Listener(20_000, ("kafka-1", 9092)),
        Listener(20_001, ("kafka-2", 9092)),
        Listener(20_004, ("kafka-5", 9093)),
    ]
    assert addresses.rewritten

    without_first, _ = plan_listeners(settings, {node: ADVERTISED[node] for node in (2, 5)})
    assert without_first == listeners[1:]
    with_zero, _ = plan_listeners(settings, {0: ("kafka-0", 9092), **ADVERTISED})
    assert with_zero == [Listener(20_999, ("kafka-0", 9092)), *listeners]
    assert caplog.messages == ["the broker with node id 0 has port 20999; gateway.listeners can give it another one"]


def test_brokers_that_advertise_the_gateway_are_left_unchanged():
    """Each broker has a separate listener."""
    settings = GatewaySettings(
        advertised_by="brokers", advertised_host="gw", listeners=["20001=kafka-1:9094", "20002=kafka-2:9094"]
    )
    listeners, addresses = plan_listeners(settings, {1: ("gw", 20_001), 2: ("gw", 20_002)})
    assert [listener.broker for listener in listeners] == [("kafka-1", 9094), ("kafka-2", 9094)]
    assert not addresses.rewritten


@pytest.mark.parametrize(
    ("settings", "advertised", "expected"),
    [
        (
            {"advertised_by": "brokers", "listeners": ["20001=kafka-1:9094"], "advertised_host": "gw"},
            {1: ("kafka-1", 9092)},
            (
                "brokers advertise kafka-1:9092, but the gateway's addresses are gw:20001; "
                "the brokers' advertised.listeners must"
            ),
        ),
        (
            {"listeners": ["20001=kafka-1:9092"]},
            {1: ("kafka-1", 9092), 2: ("kafka-2", 9092)},
            (
                "brokers advertise kafka-2:9092, but the gateway's addresses are kafka-1:9092; "
                "gateway.listeners must name each"
            ),
        ),
        ({"first_port": 65_535}, ADVERTISED, "the broker with node id 2 would have port 65536; give its port in"),
        ({"first_port": 65_000}, {0: ("kafka-0", 9092)}, "the broker with node id 0 would have port 65999; give its"),
        ({}, {0: ("kafka-0", 9092), 1000: ("kafka-1000", 9092)}, "node ids 0 and 1000 would have one port; give"),
        ({"address": "0.0.0.0"}, ADVERTISED, "gateway.advertised_host"),  # noqa: S104 it is rejected
    ],
)
def test_settings_with_which_clients_bypass_the_gateway_are_rejected(settings, advertised, expected):
    """The line has the advertised address, and what to change."""
    with pytest.raises(BadInput) as error:
        plan_listeners(GatewaySettings(**settings), advertised)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.anyio
async def test_a_port_leads_to_a_broker_that_responds_until_its_own_one_does(protocol, monkeypatch):
    """Also a port whose broker has gone; what another one cannot answer for it closes the connection."""
    stats = make_context(protocol).stats
    monkeypatch.setattr("jobs.gateway.brokers._RETRY_SECONDS", 0.01)
    first, stop = free_port(), threading.Event()
    settings = GatewaySettings(first_port=first)
    server = GatewayServer(make_context(protocol, stats=stats), None, None, settings, Encryption())
    with ScriptedBroker(protocol, {3: NO_BROKERS}).listening() as one, ScriptedBroker(protocol, {}).listening() as two:
        gone = "127.0.0.1", free_port()
        listeners = [Listener(first + 1, gone), Listener(first + 2, ("127.0.0.1", one.port))]
        serving = asyncio.create_task(server.serve(listeners, stop))
        await eventually(lambda: stats.is_serving)
        clients = [WireClient(("127.0.0.1", port), protocol, "app") for port in range(first, first + 3)]
        for client in clients:
            assert await asyncio.to_thread(client.call, 3, 12, ASKED) == NO_BROKERS
        assert stats.broker_failures == {
            first + 1: f"127.0.0.1:{gone[1]}: connection refused",
            first + 2: "",
        }
        assert [key for key, _ in one.requests] == [3, 3, 3]

        server.connections.brokers[first + 1] = "127.0.0.1", two.port
        following = asyncio.create_task(follow_brokers(server.connections.brokers, Encryption(), protocol, stats))
        await eventually(lambda: stats.closed == {"broker_back": 1})
        assert await asyncio.to_thread(clients[1].socket.recv, 1) == b""
        assert await asyncio.to_thread(clients[2].call, 3, 12, ASKED) == NO_BROKERS
        following.cancel()
        for client in clients:
            client.close()
        stop.set()
        await serving


@pytest.mark.anyio
async def test_a_broker_that_joins_or_moves_is_served_once_it_answers(protocol, monkeypatch, caplog):
    """What fails is tried again, and logged once; a known broker that does not answer does not matter."""
    monkeypatch.setattr("jobs.gateway.server.CHECK_SECONDS", 0.001)
    port = free_port()
    settings = GatewaySettings(first_port=port)
    first, second, moved = ("kafka-1", 9092), ("kafka-2", 9092), ("kafka-2b", 9092)
    context = make_context(protocol, addresses=Addresses({first: ("127.0.0.1", port)}))
    server = GatewayServer(context, None, None, settings, Encryption())
    await server._open(Listener(port, first))  # noqa: SLF001
    context.stats.is_serving = True
    advertised, asked = {1: first}, Counter()
    silent = {second}
    third = "kafka-3", 9092  # no port is left for it

    async def ask(broker):
        asked[broker] += 1
        if broker in silent:
            raise ClusterError(f"{broker[0]} does not answer")
        return dict(advertised)

    def own_address(broker):
        ((replaced,), _) = context.addresses.replaced([{"host": broker[0], "port": broker[1]}])
        return replaced["host"], replaced["port"]

    following = asyncio.create_task(server.follow_joins([first], ask))
    advertised |= {70_000: third, 2: second}
    await eventually(lambda: asked[second] > 2)
    assert context.addresses.foreign([second])
    silent.clear()
    await eventually(lambda: not context.addresses.foreign([second]))
    assert own_address(second) == ("127.0.0.1", port + 1)
    ended = []
    for at in (port, port + 1):
        left = SimpleNamespace(channel=at, port=at, end=lambda reason, _, at=at: ended.append((at, reason)))
        server.connections.opened(left)
    advertised[2] = moved
    await eventually(lambda: server.serves(2, moved))
    assert ended == [(port + 1, "broker_back")]  # another broker may have the former address now
    assert own_address(moved) == ("127.0.0.1", port + 1)
    assert context.addresses.foreign([second])

    silent.add(first)
    advertised[1], advertised[2] = moved, second  # they swap their addresses, as new pods may
    await eventually(lambda: server.serves(1, moved) and server.serves(2, second))
    assert (own_address(moved), own_address(second)) == (("127.0.0.1", port), ("127.0.0.1", port + 1))
    following.cancel()
    for listening in server._servers.values():  # noqa: SLF001
        listening.close()
    assert sorted(record.getMessage() for record in caplog.records if record.levelname == "ERROR") == [
        "the broker with node id 2 has no port of this gateway: kafka-2 does not answer",
        (
            f"the broker with node id 70000 has no port of this gateway: gateway.first_port={port}: the broker with "
            f"node id 70000 would have port {port + 69_999}; give its port in gateway.listeners"
        ),
    ]
