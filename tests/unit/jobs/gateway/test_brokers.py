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
from tests.unit.jobs.gateway.conftest import hang_up, trusting_brokers

HOST = "127.0.0.1"


@pytest.fixture
def broker(protocol):
    with ScriptedBroker(protocol, {}).listening() as running:
        yield running


def failure(protocol, port):
    return asyncio.run(broker_failure(("127.0.0.1", port), Encryption(), protocol))


def test_a_broker_that_answers_has_no_failure(protocol, broker):
    assert failure(protocol, broker.port) == ""


def test_a_port_that_listens_without_responding_is_not_a_broker(protocol, monkeypatch):
    """It is a load balancer without brokers, or a broker that hangs."""
    monkeypatch.setattr(brokers, "_ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert failure(protocol, port) == f"127.0.0.1:{port}: no answer"


@pytest.mark.anyio
async def test_the_loss_of_a_broker_is_known_and_logged_until_it_is_back(protocol, monkeypatch, caplog):
    """It is then asked more often; another broker is not concerned, nor does an unexpected error end the checks."""
    monkeypatch.setattr(brokers, "_RETRY_SECONDS", 0.001)
    caplog.set_level("INFO")
    stats, known = GatewayStats(), {1: ("127.0.0.1", free_port()), 2: (None, "no port"), 3: ("127.0.0.1", 0)}
    with ScriptedBroker(protocol, {}).listening() as broker:
        known[3] = ("127.0.0.1", broker.port)
        following = asyncio.create_task(follow_brokers(known, Encryption(), protocol, stats))
        refused = f"127.0.0.1:{known[1][1]}: connection refused"
        await eventually(lambda: stats.broker_failures == {1: refused, 2: stats.broker_failures.get(2), 3: ""})
        assert stats.broker_failures[2]
        known[1] = known[2] = known[3]
        await eventually(lambda: stats.broker_failures == {1: "", 2: "", 3: ""})
    following.cancel()
    assert [message for message in caplog.messages if "port 1" in message] == [
        f"connections to port 1 lead to another broker, if any responds, until its own one does: {refused}",
        "the broker behind port 1 responds again",
    ]


@pytest.mark.anyio
@pytest.mark.parametrize(("last", "nodes"), [(2, {1, 3}), (1, {1})], ids=["Kafka 4.0", "older"])
async def test_the_address_of_a_broker_that_is_down_is_known_if_brokers_tell_it(protocol, last, nodes):
    """Only where it is asked for: a broker that joins has to respond first."""
    versions = {key: api.max_version for key, api in protocol.apis.items()} | {60: last}
    one, three = ({"host": f"kafka-{node}", "port": 9092, "rack": None} for node in (1, 3))
    cluster = {"throttleTimeMs": 0, "clusterId": "x", "controllerId": 1, "errorCode": 0, "errorMessage": None}
    described = [{"brokerId": 1, "isFenced": False, **one}, {"brokerId": 3, "isFenced": True, **three}]
    answers = {
        3: cluster | {"brokers": [{"nodeId": 1, **one}], "topics": []},
        60: cluster | {"endpointType": 1, "brokers": described, "clusterAuthorizedOperations": 0},
    }
    with ScriptedBroker(protocol, answers, versions).listening() as broker:
        asked = [("127.0.0.1", broker.port)], Security(), Encryption(), protocol, 5.0
        assert set(await advertised_addresses(*asked)) == {1}
        assert set(await advertised_addresses(*asked, with_down=True)) == nodes


@pytest.mark.anyio
async def test_a_listener_that_requests_no_certificates_although_they_identify_the_clients_is_rejected(monkeypatch):
    async def read(*_, **__):
        return {1: ("kafka", 9094)}

    monkeypatch.setattr(brokers, "_read", read)
    context = ssl.create_default_context()
    asked = [("kafka-1", 9094)], Security("SSL")
    open_to_all = trusting_brokers(context)
    assert await advertised_addresses(*asked, open_to_all, None, 1.0) == {1: ("kafka", 9094)}
    by_certificates = trusting_brokers(context, rules=PrincipalRules())
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
