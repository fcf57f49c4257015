"""Tokens of OAuth for clients of Kafka: from a token server, and from a function of the settings."""

import asyncio
import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from quota.errors import BadInput, ClusterError
from quota.kafka.admin.client_options import ClientOptions
from quota.kafka.brokers import broker_calls
from quota.kafka.brokers.broker_calls import connected, log_in
from quota.kafka.brokers.tokens import (
    Token,
    TokenFunction,
    credentials_in,
    fetch_token,
    to_token,
)
from quota.kafka.librdkafka import client_config, cluster_errors
from quota.settings import load_settings
from quota.settings.connection import ClientCredentials, Security
from quota.wire.access_tokens import write_bearer_message
from quota.wire.protocol import ApiKey, Protocol
from tests.support.answering import answering
from tests.support.broker import Authority
from tests.support.logins import by_function
from tests.support.scripted_broker import ScriptedBroker, accepted_login
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


def test_the_credentials_are_found_in_librdkafkas_configuration(server):
    given = credentials(server, scope="kafka")
    assert credentials_in(given.librdkafka()) == given


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
        ({"url": "http://127.0.0.1:1/token"}, "from http://127.0.0.1:1/token: connection refused"),
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


def error_of_answer(server, content, seconds, *, keeps_open=True):
    """Return the reason why there is no token, from a server that answers with these bytes."""
    with answering(content, keeps_open=keeps_open) as (port, _), pytest.raises(ClusterError) as raised:
        fetch_token(credentials(server, url=f"http://127.0.0.1:{port}/token"), seconds)
    start, _, reason = str(raised.value).partition(f"http://127.0.0.1:{port}/token: ")
    assert start == "cannot get a token for client alice from "
    return reason


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_sends_the_secret_to_no_other_server(server, status):
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (port, received):
        location = f"http://127.0.0.1:{port}/token?key=xyzzy"
        redirect = f"HTTP/1.1 {status} See Other\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        error = error_of_answer(server, redirect.encode(), 10)
    assert received == []
    assert error == f"{status} See Other"


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
    assert error_of_answer(server, content, 2) == error


def test_a_server_that_closes_the_connection_is_not_said_to_answer(server):
    assert error_of_answer(server, b"", 2, keeps_open=False) == "Remote end closed connection without response"


def test_the_message_to_a_broker_is_that_of_rfc_7628():
    message = write_bearer_message("t.o.k", {"logicalCluster": "lkc-1"})
    assert message == b"n,,\x01auth=Bearer t.o.k\x01logicalCluster=lkc-1\x01\x01"


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


def logged_in(broker, security):
    """Log in to a broker with a new connection, and return the bearer message that it got."""

    async def log_in_once():
        async with connected(("127.0.0.1", broker.port), None, Protocol.of_messages()) as calls:
            await log_in(calls, security)

    broker.requests.clear()
    try:
        asyncio.run(log_in_once())
    finally:
        sent = [message["authBytes"] for key, message in broker.requests if key == ApiKey.SASL_AUTHENTICATE]
    return sent[0]


@pytest.fixture
def accepting(protocol):
    """A broker that accepts all tokens."""
    with ScriptedBroker(protocol, accepted_login("OAUTHBEARER")).listening() as broker:
        yield broker


@pytest.mark.parametrize(("expires_in", "tokens"), [(3600, 1), ("3600", 1), (0, 3), (None, 3), ("soon", 3), ("nan", 3)])
def test_connections_use_a_token_again_for_half_its_lifetime(server, accepting, monkeypatch, expires_in, tokens):
    granted = []

    def answer(*_):
        granted.append(f"granted-{len(granted)}")
        return 200, {"access_token": granted[-1], "expires_in": expires_in}

    monkeypatch.setattr(server, "answer", answer)
    security = Security("SASL_PLAINTEXT", "OAUTHBEARER", oauth=credentials(server))
    assert len({logged_in(accepting, security) for _ in range(3)}) == len(granted) == tokens
    monkeypatch.setattr("time.time", lambda now=time.time: now() + 1801)
    assert b"Bearer granted-%d\x01" % tokens in logged_in(accepting, security)


def test_a_token_that_a_broker_rejects_is_not_used_again(accepting):
    security = load("counted").kafka.security
    first = logged_in(accepting, security)
    accepted = accepting.answers[ApiKey.SASL_AUTHENTICATE]
    accepting.answers[ApiKey.SASL_AUTHENTICATE] = None  # the broker ends
    with pytest.raises(EOFError):
        logged_in(accepting, security)
    accepting.answers[ApiKey.SASL_AUTHENTICATE] = accepted
    assert logged_in(accepting, security) == first
    accepting.answers[ApiKey.SASL_AUTHENTICATE] = accepted | {"authBytes": b'{"status":"invalid_token"}'}
    with pytest.raises(ClusterError, match=r"the token is not accepted: .*invalid_token"):
        logged_in(accepting, security)
    accepting.answers[ApiKey.SASL_AUTHENTICATE] = accepted
    assert (logged_in(accepting, security) == first, len(CALLS)) == (False, 2)


HOUR = 3600
CALLS = []


def counted(config):
    CALLS.append(config)
    return f"token-{len(CALLS)}", time.time() + HOUR, "alice", {"logicalCluster": "lkc-1"}


def short_lived(_config):
    CALLS.append("short")
    return f"token-{len(CALLS)}", time.time() + 1


def opaque(_config):
    return "opaque", time.time() + HOUR


def failing(_config):
    raise RuntimeError("no credentials\nwere found")


def failing_later(_config):
    if CALLS:
        raise RuntimeError("the role is gone")
    CALLS.append("failing later")
    return "token", time.time() + 1


def lacking(_config):
    return "token"


def endless(_config):
    return "token", None


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()
    broker_calls._accepted.clear()  # noqa: SLF001


def load(function, *more, module=__name__):
    return load_settings([*by_function(f"{module}:{function}"), *more], environment={}, with_default_file=False)


def test_librdkafka_calls_the_function_with_its_config():
    settings = load("counted", "kafka.librdkafka.sasl.oauthbearer.config=region=eu")
    config = client_config(settings.kafka.connection)
    callback = config.pop("oauth_cb")
    assert {name: value for name, value in config.items() if name.startswith(("sasl", "security"))} == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "region=eu",
    }
    last = len(CALLS)
    assert [callback("region=eu")[0], callback("region=eu")[0]] == [f"token-{last}", f"token-{last + 1}"]
    assert set(CALLS) == {"region=eu"}


def test_a_token_that_has_nearly_expired_is_not_used():
    function = TokenFunction(load("short_lived").kafka.security)
    assert function()[0] == "token-2"


def test_the_result_of_a_function_has_the_principal_and_extensions():
    token = to_token(counted(""))
    assert (token.value, token.subject, token.extensions) == ("token-1", "alice", {"logicalCluster": "lkc-1"})
    assert to_token(opaque("")).subject == ""


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("failing", f"cannot get a token by {__name__}:failing: RuntimeError: no credentials were found"),
        ("lacking", "expected (token, expiry in epoch seconds[, principal[, extensions]]), got str"),
        ("endless", "the expiry is NoneType, expected seconds"),
    ],
)
def test_a_function_without_a_token_is_reported_in_one_line(function, error):
    with pytest.raises(ClusterError) as raised:
        client_config(load(function).kafka.connection)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_function_that_fails_later_is_the_reason_of_an_error_once():
    connection = load("failing_later").kafka.connection
    client_config(connection)
    with pytest.raises(ClusterError) as raised, cluster_errors("read topic quotas", connection):
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))  # noqa: SLF001
    assert str(raised.value) == (
        f"cannot read topic quotas: cannot get a token by {__name__}:failing_later: RuntimeError: the role is gone"
    )


@pytest.mark.parametrize(
    ("module", "function", "error"),
    [
        (
            "no.such",
            "token",
            "sasl_oauthbearer_token_function no.such:token: ModuleNotFoundError: No module named",
        ),
        (__name__, "nobody", "nobody: AttributeError: "),
        (__name__, "HOUR", "HOUR: not a function"),
    ],
)
def test_a_missing_function_is_reported(module, function, error):
    with pytest.raises(BadInput) as raised:
        client_config(load(function, module=module).kafka.connection)
    assert error in str(raised.value)


def test_sparks_clients_need_their_own_login():
    with pytest.raises(BadInput, match=r"Spark's clients cannot call sasl_oauthbearer_token_function; set sasl"):
        load("counted").kafka.security.java()
    own = load("counted", "kafka.java.sasl.mechanism=AWS_MSK_IAM", "kafka.java.sasl.jaas.config=a.Module required;")
    assert own.kafka.security.java() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "a.Module required;",
    }


def test_the_user_of_a_client_is_the_functions_principal_or_must_be_set():
    counted, opaque = (client_config(load(name).kafka.connection) for name in ("counted", "opaque"))
    assert ClientOptions.from_config(counted).user == "alice"
    with pytest.raises(BadInput, match=r"client\.user is missing: .* which its token does not say"):
        ClientOptions.from_config(opaque)
    assert ClientOptions.from_config(opaque | {"mutation.quota.client.user": "carol"}).user == "carol"
