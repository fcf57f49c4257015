"""Tokens from a token server: its errors are one line, and tokens identify users."""

import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from quota.errors import BadInput, ClusterError
from quota.kafka.admin.options import ClientOptions
from quota.kafka.brokers.tokens import Token, bearer_message, fetch_token
from quota.settings.security.oauth import ClientCredentials
from tests.support.broker import Authority
from tests.support.token_server import Signer, TokenServer

SECRET = 'a:b%20"c'  # noqa: S105


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A token server over TLS."""
    folder = tmp_path_factory.mktemp("tokens")
    authority = Authority(folder / "certificates")
    certificate = authority.sign("server", "127.0.0.1")
    with TokenServer(Signer(folder), {"alice": SECRET}, (certificate.path, certificate.key)) as running:
        running.ca = authority.path
        yield running


def credentials(server, **more):
    named = {"client_id": "alice", "client_secret": SECRET, "ca": server.ca.read_text(), **more}
    return ClientCredentials(named.pop("url", server.url), **named)


def application(server, **more):
    """Return librdkafka's own settings, as an application passes them to its client."""
    return {
        "bootstrap.servers": "b:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": SECRET,
        "https.ca.location": str(server.ca),
        **more,
    }


def test_a_token_has_its_subject(server):
    token = fetch_token(credentials(server, scope="kafka"), 10)
    assert token.subject == "alice"
    assert token.value not in repr(token)


@pytest.mark.parametrize("value", ["opaque", "a.b.c", "a.!.c", "..", "a.eyJpYXQiOjF9.c"])
def test_a_token_may_have_no_subject(value):
    assert Token(value).subject == ""


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"client_secret": "wrong"}, "client alice from {url}: 401 invalid_client: the client secret is wrong"),
        ({"scope": "other"}, "client alice from {url}: 400 invalid_scope: no scope other"),
        (
            {"ca": ""},
            "certificate verify failed: unable to get local issuer certificate; set sasl_oauthbearer_ca_location",
        ),
        ({"url": "http://127.0.0.1:1/token"}, "from http://127.0.0.1:1/token: Connection refused"),
    ],
)
def test_an_error_of_the_token_server_is_reported_in_one_line(server, more, error):
    with pytest.raises(ClusterError) as raised:
        fetch_token(credentials(server, **more), 10)
    assert error.format(url=server.url) in str(raised.value)
    assert SECRET not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_response_without_a_token_is_reported(server, monkeypatch):
    monkeypatch.setattr(server, "answer", lambda *_: (200, {"hello": "world"}))
    with pytest.raises(ClusterError, match=r"the response has no access_token; this is not a token endpoint$"):
        fetch_token(credentials(server), 10)


@contextmanager
def answering(content):
    """Run a server that answers each connection with these bytes and keeps it open; yield its URL and its input."""
    sent, kept = [], []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with suppress(OSError):  # it is closed
                while True:
                    connection, _ = listener.accept()
                    kept.append(connection)
                    sent.append(connection.recv(65536))
                    connection.sendall(content)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/token", sent
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in kept:
                each.close()


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_sends_the_secret_to_no_other_server(server, status):
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (elsewhere, sent):
        redirect = f"HTTP/1.1 {status} See\r\nLocation: {elsewhere}?key=xyzzy\r\nContent-Length: 0\r\n\r\n"
        with answering(redirect.encode()) as (url, _), pytest.raises(ClusterError) as raised:
            fetch_token(credentials(server, url=url), 10)
    assert sent == []
    assert str(raised.value) == (
        f"cannot get a token for client alice from {url}: {status} redirects to {elsewhere}; "
        "sasl_oauthbearer_token_endpoint_url must name the endpoint itself"
    )


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"\0\0\0\5hello\n", "the response is not HTTP, or is truncated"),
        (b"HTTP/1.1 401 No\x1b[1m way\r\nContent-Length: 100\r\n\r\n{", "401 No [1m way"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "no answer"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
            "the response is not HTTP, or is truncated",
        ),
    ],
)
def test_a_malformed_response_is_reported_in_one_line(server, content, error):
    with answering(content) as (url, _), pytest.raises(ClusterError) as raised:
        fetch_token(credentials(server, url=url), 2)
    assert str(raised.value) == f"cannot get a token for client alice from {url}: {error}"


def test_the_message_to_a_broker_is_that_of_rfc_7628():
    found = bearer_message(Token("t.o.k", extensions={"logicalCluster": "lkc-1"}))
    assert found == b"n,,\x01auth=Bearer t.o.k\x01logicalCluster=lkc-1\x01\x01"


def test_the_user_of_a_client_is_the_subject_of_its_token(server):
    assert ClientOptions.from_config(application(server)).user == "alice"


def test_a_configured_user_needs_no_token(server):
    config = application(server, **{"mutation.quota.client.user": "carol", "sasl.oauthbearer.client.secret": "wrong"})
    assert ClientOptions.from_config(config).user == "carol"


def test_a_client_without_a_token_does_not_get_another_user(server):
    with pytest.raises(ClusterError, match="the client secret is wrong"):
        ClientOptions.from_config(application(server, **{"sasl.oauthbearer.client.secret": "wrong"}))


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "GSSAPI"])
def test_a_client_with_an_undetermined_user_is_not_anonymous(mechanism):
    config = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
    with pytest.raises(BadInput, match=r"client\.user is missing"):
        ClientOptions.from_config(config)
