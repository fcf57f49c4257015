"""The contact of a running gateway with its brokers."""

import asyncio
import socket
import ssl
from collections import Counter

import pytest

from jobs.gateway import probe
from jobs.gateway.encryption import Encryption
from jobs.gateway.listeners import Listener
from jobs.gateway.probe import advertised_addresses, broker_failure, follow_brokers, follow_joins
from jobs.gateway.server import GatewayServer
from jobs.sandbox.broker import free_port
from quota.errors import BadInput, ClusterError
from quota.gateway.addresses import Addresses
from quota.gateway.stats import GatewayStats
from quota.settings.connection import Security
from quota.settings.gateway import GatewaySettings
from quota.settings.principals import PrincipalRules
from tests.support.scripted_broker import ScriptedBroker
from tests.support.waiting import eventually
from tests.unit.quota.gateway.play import make_context


@pytest.fixture
def broker(protocol):
    with ScriptedBroker(protocol, {}).listening() as running:
        yield running


def failure(protocol, *ports):
    return asyncio.run(broker_failure([("127.0.0.1", port) for port in ports], None, protocol))


def test_one_broker_that_answers_is_enough(protocol, broker):
    assert failure(protocol, free_port(), broker.port) == ""


def test_the_error_of_each_broker_is_reported_if_none_answers(protocol):
    first, second = free_port(), free_port()
    expected = f"127.0.0.1:{first}: connection refused; 127.0.0.1:{second}: connection refused"
    assert failure(protocol, first, second) == expected


def test_an_invalid_host_name_is_reported(protocol):
    text = asyncio.run(broker_failure([("a..b", 9092)], None, protocol))
    assert text.startswith("a..b:9092: ")


def test_a_port_that_listens_without_responding_is_not_a_broker(protocol, monkeypatch):
    """It is a load balancer without brokers, or a broker that hangs."""
    monkeypatch.setattr(probe, "_ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert failure(protocol, port) == f"127.0.0.1:{port}: no answer"


@pytest.mark.anyio
async def test_the_loss_of_the_brokers_is_known_until_one_is_back(protocol, monkeypatch):
    monkeypatch.setattr(probe, "_CHECK_SECONDS", 0.01)
    stats = GatewayStats()
    with ScriptedBroker(protocol, {}).listening() as broker:
        brokers = {1: ("127.0.0.1", broker.port)}
        following = asyncio.create_task(follow_brokers(brokers, Encryption(), protocol, stats))
    await eventually(lambda: stats.broker_failure == f"127.0.0.1:{broker.port}: connection refused")
    with ScriptedBroker(protocol, {}).listening() as broker:
        brokers[1] = ("127.0.0.1", broker.port)
        await eventually(lambda: not stats.broker_failure)
    following.cancel()


@pytest.mark.anyio
async def test_the_check_of_the_brokers_outlives_any_exception(protocol, monkeypatch):
    monkeypatch.setattr(probe, "_CHECK_SECONDS", 0.01)
    fails = True

    async def check(*_):
        if fails:
            raise KeyError("a response")
        return ""

    monkeypatch.setattr(probe, "broker_failure", check)
    stats = GatewayStats()
    following = asyncio.create_task(follow_brokers({}, Encryption(), protocol, stats))
    await eventually(lambda: stats.broker_failure == "KeyError: 'a response'")
    fails = False
    await eventually(lambda: not stats.broker_failure)
    following.cancel()


@pytest.mark.anyio
async def test_a_broker_that_joins_or_moves_is_served_once_it_answers(protocol, monkeypatch, caplog):
    """What fails is tried again, and logged once; a known broker that does not answer does not matter."""
    monkeypatch.setattr(probe, "_CHECK_SECONDS", 0.001)
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

    following = asyncio.create_task(follow_joins(server, [first], ask))
    advertised |= {70_000: third, 2: second}
    await eventually(lambda: asked[second] > 2)
    assert context.addresses.foreign([second])
    silent.clear()
    await eventually(lambda: not context.addresses.foreign([second]))
    assert own_address(second) == ("127.0.0.1", port + 1)
    advertised[2] = moved
    await eventually(lambda: server.serves(2, moved))
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


@pytest.mark.anyio
async def test_a_listener_that_requests_no_certificates_although_they_identify_the_clients_is_rejected(monkeypatch):
    async def read(*_):
        return {1: ("kafka", 9094)}

    monkeypatch.setattr(probe, "_read", read)
    context = ssl.create_default_context()
    asked = [("kafka-1", 9094)], Security("SSL")
    open_to_all = Encryption(brokers=context)
    assert await advertised_addresses(*asked, open_to_all, None, 1.0) == {1: ("kafka", 9094)}
    by_certificates = Encryption(brokers=context, rules=PrincipalRules())
    with pytest.raises(BadInput, match="listener at kafka-1:9094 does not request client certificates"):
        await advertised_addresses(*asked, by_certificates, None, 1.0)
