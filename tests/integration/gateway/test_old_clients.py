"""The first versions of Metadata and SaslHandshake, which old clients send whatever is offered, as at a broker."""

import struct
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import NewTopic

from tests.support.deployment import prepared_deployment
from tests.support.gateway import StandIn, is_closed, running_gateway, wire_client
from tests.support.wire.requests import creation

USER, PASSWORD = b"alice", b"alice-secret"


@pytest.fixture(scope="module")
def sasl(base_settings, secured, tmp_path_factory):
    """A gateway in front of a broker that authenticates its clients, with a topic of two partitions."""
    folder = tmp_path_factory.mktemp("old-clients")
    settings = prepared_deployment(base_settings, secured.broker, "old-clients", folder)
    secured.admin.create_topics([NewTopic("old-clients", 2)])["old-clients"].result(30)
    with StandIn(settings) as job, running_gateway(settings, folder / "gateway.log", *secured.sasl_target) as gateway:
        yield SimpleNamespace(job=job, gateway=gateway, broker_port=int(secured.sasl_address.rpartition(":")[2]))


def token(client, data):
    """Send a bare token, and return the broker's."""
    client.write(struct.pack(">i", len(data)) + data)
    return client.receive()


def plain_tokens(port):
    client = wire_client(port)
    assert client.call(17, 0, {"mechanism": "PLAIN"})["errorCode"] == 0
    assert token(client, b"\0admin\0admin-secret") == b""
    return client


def test_bare_tokens_authenticate_as_at_the_broker(sasl):
    """kafka-python 2.0.2 and aiokafka 0.12 log in like this, and then ask for metadata in version 1."""
    answers = []
    for port in (sasl.broker_port, sasl.gateway.port):
        with plain_tokens(port) as client:
            answer = client.call(3, 1, {"topics": [{"name": "old-clients"}, {"name": "not-there"}]})
        assert {broker["port"] for broker in answer.pop("brokers")} == {port}
        answers.append(sorted(answer["topics"], key=lambda topic: topic["name"]))
    assert answers[0] == answers[1]
    assert [(topic["name"], topic["errorCode"], len(topic["partitions"])) for topic in answers[0]] == [
        ("not-there", 3, 0),
        ("old-clients", 0, 2),
    ]


def test_a_mutation_after_bare_tokens_is_charged_to_their_user(sasl):
    with plain_tokens(sasl.gateway.port) as client:
        answer = client.call(19, 2, creation("old-made", partitions=3))
    assert [topic["errorCode"] for topic in answer["topics"]] == [0]
    request = sasl.job.requests[-1]
    assert (request.user, [(topic.name, topic.partitions) for topic in request.topics]) == ("admin", [("old-made", 3)])


def test_a_wrong_password_in_a_bare_token_closes_the_connection(sasl):
    for port in (sasl.broker_port, sasl.gateway.port):
        with wire_client(port) as client:
            client.call(17, 0, {"mechanism": "PLAIN"})
            client.write(struct.pack(">i", 12) + b"\0admin\0wrong")
            assert is_closed(client.socket)


@pytest.mark.parametrize("version", range(4))
def test_metadata_of_all_topics_is_that_of_the_broker(sasl, version):
    """In version 0 an empty list means all."""
    answers = []
    for port in (sasl.broker_port, sasl.gateway.port):
        with wire_client(port) as client:
            client.authenticate("admin", "admin-secret")
            answer = client.call(3, version, {"topics": None if version else []})
        assert {broker.pop("port") for broker in answer["brokers"]} == {port}
        answer["topics"].sort(key=lambda topic: topic["name"])
        answers.append(answer)
    assert answers[0] == answers[1]
    assert "old-clients" in [topic["name"] for topic in answers[0]["topics"]]
