"""The contact of a running gateway with its brokers."""

import asyncio
import socket
import ssl

import pytest

from jobs.gateway import brokers
from jobs.gateway.brokers import advertised_addresses, broker_failure, certificate_requests, follow_brokers
from jobs.gateway.encryption import Encryption
from jobs.sandbox.broker import free_port
from quota.errors import BadInput
from quota.gateway.stats import GatewayStats
from quota.settings.connection import Security
from quota.settings.principals import PrincipalRules
from tests.support.scripted_broker import ScriptedBroker
from tests.support.waiting import eventually
from tests.unit.jobs.gateway.conftest import hang_up

HOST = "127.0.0.1"


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


def test_a_port_that_listens_without_responding_is_not_a_broker(protocol, monkeypatch):
    """It is a load balancer without brokers, or a broker that hangs."""
    monkeypatch.setattr(brokers, "_ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert failure(protocol, port) == f"127.0.0.1:{port}: no answer"


@pytest.mark.anyio
async def test_the_loss_of_the_brokers_is_known_until_one_is_back(protocol, monkeypatch):
    monkeypatch.setattr(brokers, "CHECK_SECONDS", 0.01)
    stats = GatewayStats()
    with ScriptedBroker(protocol, {}).listening() as broker:
        known = {1: ("127.0.0.1", broker.port)}
        following = asyncio.create_task(follow_brokers(known, Encryption(), protocol, stats))
    await eventually(lambda: stats.broker_failure == f"127.0.0.1:{broker.port}: connection refused")
    with ScriptedBroker(protocol, {}).listening() as broker:
        known[1] = ("127.0.0.1", broker.port)
        await eventually(lambda: not stats.broker_failure)
    following.cancel()


@pytest.mark.anyio
async def test_the_check_of_the_brokers_outlives_any_exception(protocol, monkeypatch):
    monkeypatch.setattr(brokers, "CHECK_SECONDS", 0.01)
    fails = True

    async def check(*_):
        if fails:
            raise KeyError("a response")
        return ""

    monkeypatch.setattr(brokers, "broker_failure", check)
    stats = GatewayStats()
    following = asyncio.create_task(follow_brokers({}, Encryption(), protocol, stats))
    await eventually(lambda: stats.broker_failure == "KeyError: 'a response'")
    fails = False
    await eventually(lambda: not stats.broker_failure)
    following.cancel()


@pytest.mark.anyio
async def test_a_listener_that_requests_no_certificates_although_they_identify_the_clients_is_rejected(monkeypatch):
    async def read(*_):
        return {1: ("kafka", 9094)}

    monkeypatch.setattr(brokers, "_read", read)
    context = ssl.create_default_context()
    asked = [("kafka-1", 9094)], Security("SSL")
    open_to_all = Encryption(brokers=context)
    assert await advertised_addresses(*asked, open_to_all, None, 1.0) == {1: ("kafka", 9094)}
    by_certificates = Encryption(brokers=context, rules=PrincipalRules())
    with pytest.raises(BadInput, match="listener at kafka-1:9094 does not request client certificates"):
        await advertised_addresses(*asked, by_certificates, None, 1.0)


async def handshake(server, client):
    """Connect once, as the gateway does."""
    async with await asyncio.start_server(hang_up, HOST, 0, ssl=server) as listening:
        try:
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=client)
            await reader.read()
            writer.close()
        except OSError:  # without a certificate where one is required
            pass


def contexts(certificates, auth):
    """Return the contexts of a broker that requests certificates as told, and of the gateway."""
    authority, own = certificates
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(own.path, own.key)
    server.load_verify_locations(authority.path)
    server.verify_mode = auth
    return server, ssl.create_default_context(cafile=str(authority.path))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("auth", "requested"), [(ssl.CERT_NONE, False), (ssl.CERT_OPTIONAL, True), (ssl.CERT_REQUIRED, True)]
)
def test_a_request_for_a_certificate_is_seen(certificates, version, auth, requested):
    """It is seen whether or not the connection succeeds, and only if it is requested."""
    server, client = contexts(certificates, auth)
    server.maximum_version = version
    with certificate_requests(client) as requests:
        asyncio.run(handshake(server, client))
    assert bool(requests) == requested
    seen = len(requests)
    asyncio.run(handshake(server, client))
    assert len(requests) == seen


@pytest.mark.anyio
async def test_only_ones_own_connections_are_asked_for_certificates(certificates):
    """Others are made with the same context meanwhile."""
    server, client = contexts(certificates, ssl.CERT_OPTIONAL)
    other = asyncio.create_task(handshake(server, client))
    with certificate_requests(client) as requests:
        await other
        assert not requests
        await handshake(server, client)
        assert requests
