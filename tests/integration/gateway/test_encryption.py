"""TLS of clients, which ends at the gateway, and TLS from the gateway to the brokers."""

import selectors
import socket
import ssl
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.sandbox.broker import HOST
from quota.errors import BadInput
from quota.kafka.admin.client_options import check_no_gateway
from quota.wire.headers import RequestHeader, write_request
from quota.wire.protocol import ApiKey
from tests.support.broker import ADMIN, ADMIN_PASSWORD
from tests.support.deployment import set_options
from tests.support.gateway import is_closed, protocol, settled
from tests.support.programs import paused, run
from tests.support.topics import QUIET
from tests.support.waiting import until
from tests.support.wire.requests import creation
from tests.support.wire_client import WireClient

USER, PASSWORD = "erin", "pä\"ss\\word;{$}='1"


@pytest.fixture(scope="module")
def secure(serve, secured):
    """A gateway with its own certificate, in front of the broker's listener with SASL_SSL."""
    secured.add_user(USER, PASSWORD)
    secured.allow(USER, [("TOPIC", "erin-", "PREFIXED", "ALL")])
    own = secured.authority.sign("gateway", HOST)
    given = [
        f"kafka.bootstrap_servers={secured.address}",
        "kafka.security_protocol=SASL_SSL",
        "kafka.sasl_mechanism=PLAIN",
        f"kafka.sasl_username={ADMIN}",
        f"kafka.sasl_password={ADMIN_PASSWORD}",
        f"kafka.ssl_ca_location={secured.authority.path}",
        f"gateway.ssl_certificate_location={own.path}",
        f"gateway.ssl_key_location={own.key}",
    ]
    served = serve(secured.broker, *given, constants=SOON)
    served.authority, served.broker = secured.authority, secured
    return served


SOON = {"jobs.gateway.server._AUTHENTICATION_SECONDS": 2.0}


def test_a_client_that_requests_decisions_itself_recognizes_the_gateway_through_tls(secure):
    """Before it logs in, and whatever certificates it trusts."""
    with pytest.raises(BadInput, match="is a gateway, which requests decisions itself"):
        check_no_gateway({"bootstrap.servers": secure.gateway.address, "security.protocol": "SASL_SSL"})
    check_no_gateway({"bootstrap.servers": secure.broker.address, "security.protocol": "SASL_SSL"})


def admin(secure, mechanism, user, password):
    return AdminClient(
        {
            **QUIET,
            "bootstrap.servers": secure.gateway.address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(secure.authority.path),
        }
    )


def create(client, name):
    client.create_topics([NewTopic(name, 2)])[name].result(30)


@pytest.mark.parametrize(
    ("mechanism", "user", "password"), [("PLAIN", ADMIN, ADMIN_PASSWORD), ("SCRAM-SHA-512", USER, PASSWORD)]
)
def test_clients_authenticate_through_tls_twice(secure, mechanism, user, password):
    """Clients authenticate by PLAIN and by SCRAM; the request for a decision has their principal."""
    name = f"erin-{mechanism.lower()}"
    create(admin(secure, mechanism, user, password), name)
    assert (secure.job.requests[-1].user, secure.job.requests[-1].topics[0].partitions) == (user, 2)


def test_a_plain_text_client_and_one_without_a_tls_hello_are_disconnected(secure):
    """The former is disconnected at once, the latter when the time to authenticate is over."""
    with secure.gateway.connect(10) as plain, secure.gateway.connect(10) as silent:
        plain.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\0\0\0\0\0")
        while (data := plain.recv(100)) and data[0] == 0x15:  # an alert of TLS
            pass
        assert is_closed(silent)


def test_a_client_that_aborts_its_tls_hello_leaves_no_connection(secure):
    """A hundred of them; another client is served, and leaves none either."""
    before = secure.gateway.sockets()
    for _ in range(100):
        with secure.gateway.connect() as client:
            client.sendall(bytes.fromhex("160301020001000001fc0303"))
            client.shutdown(socket.SHUT_RDWR)
    assert admin(secure, "PLAIN", ADMIN, ADMIN_PASSWORD).list_topics(timeout=10).brokers
    settled(secure.gateway, before)


PRODUCERS, KIBIBYTE, QUIET_SECONDS = 12, 1024, 2.0


def test_a_hung_broker_costs_little_memory_for_each_producer(secure):
    """Each sends until nobody reads any more; with the limits that asyncio has for TLS, the gateway holds 1,000 KiB."""
    trusting = ssl.create_default_context(cafile=str(secure.authority.path))
    with ExitStack() as stack:
        ready, sent, request = selectors.DefaultSelector(), {}, memoryview(produce_request("hung"))
        for _ in range(PRODUCERS):
            client = stack.enter_context(WireClient((HOST, secure.gateway.port), protocol(), "producer", trusting))
            client.authenticate(ADMIN, ADMIN_PASSWORD)
            client.call(ApiKey.CREATE_TOPICS, 7, creation("hung"))  # connects it to the broker
            client.socket.setblocking(False)
            ready.register(client.socket, selectors.EVENT_WRITE)
            sent[client.socket] = 0
        before = secure.gateway.rss_bytes()
        with paused(secure.broker.broker.pid):
            while writable := ready.select(QUIET_SECONDS):
                for key, _ in writable:
                    sent[key.fileobj] += send_some(key.fileobj, request[sent[key.fileobj] % len(request) :])
            per_producer = (secure.gateway.rss_bytes() - before) / PRODUCERS
    assert min(sent.values()) > 0
    assert per_producer < 600 * KIBIBYTE
    until(lambda: creates_topics(secure.broker.admin))


def creates_topics(admin):
    """Return whether the broker creates topics: after a pause its controller may believe that it is gone."""
    try:
        admin.create_topics([NewTopic("after-hung", 1)], validate_only=True)["after-hung"].result(30)
    except KafkaException:
        return False
    return True


def produce_request(topic):
    """Return a request of a mebibyte."""
    partition = {"index": 0, "records": bytes(KIBIBYTE * KIBIBYTE)}
    topics = [{"name": topic, "partitionData": [partition]}]
    message = {"transactionalId": None, "acks": 1, "timeoutMs": 1000, "topicData": topics}
    body = protocol().request(ApiKey.PRODUCE, 9).write(message)
    return write_request(RequestHeader(ApiKey.PRODUCE, 9, 1, "producer"), body, protocol())


def send_some(client, data):
    """Return the number of bytes that were sent without waiting."""
    try:
        return client.send(data)
    except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
        return 0


def test_a_listener_that_requests_certificates_fails_the_start(secure):
    """The gateway cannot forward clients' certificates, so all clients would be ANONYMOUS."""
    target = ["target.security_protocol=SSL", f"kafka.target_servers={secure.broker.tls_address}"]
    options = [*secure.given, *target, f"target.ssl_ca_location={secure.authority.path}"]
    ended = run("gateway", *set_options(*options))
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert f"the listener at {secure.broker.tls_address} requests client certificates (ssl.client.auth)" in line
