"""Quotas of clients on a cluster, read and set by the project's codecs, with a simulated broker."""

import math
import re
import socket
import time
from contextlib import ExitStack

import pytest

from quota.errors import ClusterError
from quota.kafka.brokers.cluster_quotas import ClusterQuotas
from quota.records.entity import QuotaEntity
from quota.settings.connection import Connection, Security
from tests.support.answering import answering
from tests.support.scripted_broker import ScriptedBroker, accepted_login

SASL_HANDSHAKE, SASL_AUTHENTICATE, DESCRIBE, ALTER = 17, 36, 48, 49
ALICE, BOB, CAROL, DEFAULT = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity("carol"), QuotaEntity(None)
SECONDS = 60.0


@pytest.fixture
def broker(protocol):
    """Return a function that starts a broker with these answers, until the end of the test."""
    with ExitStack() as stack:
        yield lambda answers, versions=None: stack.enter_context(
            ScriptedBroker(protocol, answers, versions).listening()
        )


def cluster(protocol, servers, security=None, seconds=SECONDS):
    return ClusterQuotas(Connection(servers, security or Security()), protocol, seconds)


def entry(parts, **values):
    entity = [{"entityType": kind, "entityName": name} for kind, name in parts]
    return {"entity": entity, "values": [{"key": key, "value": value} for key, value in values.items()]}


def described(*entries):
    return {"throttleTimeMs": 0, "errorCode": 0, "errorMessage": None, "entries": list(entries)}


def altered(request, rejected=None):
    """Return the response to a change, which rejects entities by their first name."""
    results = []
    for requested in request["entries"]:
        code, message = (rejected or {}).get(requested["entity"][0]["entityName"], (0, None))
        results.append({"errorCode": code, "errorMessage": message, "entity": requested["entity"]})
    return {"throttleTimeMs": 0, "entries": results}


def test_only_rates_of_users_and_client_ids_are_read(protocol, broker):
    """An address has other quotas, and so may a user; the default has a null name."""
    running = broker(
        {
            DESCRIBE: described(
                entry([("user", "alice")], producer_byte_rate=1e6, controller_mutation_rate=5.0),
                entry([("user", "bob")], producer_byte_rate=1e6),
                entry([("user", None)], controller_mutation_rate=1.0),
                entry([("client-id", None), ("user", "дж")], controller_mutation_rate=2.0),
                entry([("client-id", "app")], controller_mutation_rate=math.inf),
                entry([("ip", "10.0.0.1")], controller_mutation_rate=9.0),
                entry([("ip", None), ("user", "alice")], controller_mutation_rate=9.0),
                entry([("user", "")], controller_mutation_rate=9.0),
                entry([("team", "pay")], controller_mutation_rate=9.0),
            )
        }
    )
    assert cluster(protocol, running.address).read() == {
        ALICE: 5.0,
        DEFAULT: 1.0,
        QuotaEntity("дж", None): 2.0,
        QuotaEntity(client_id="app"): math.inf,
        QuotaEntity(""): 9.0,
    }
    assert running.requests[-1] == (DESCRIBE, {"components": [], "strict": False})


def test_many_changes_are_several_requests(protocol, broker):
    """A controller takes ten thousand records of a request at most."""
    running = broker({ALTER: altered})
    cluster(protocol, running.address).alter({QuotaEntity(f"u{number}"): 1.0 for number in range(2_500)})
    sizes = [len(request["entries"]) for key, request in running.requests if key == ALTER]
    assert sizes == [1_000, 1_000, 500]


def test_a_name_that_the_protocol_does_not_carry_is_one_line(protocol, broker):
    """32,767 bytes are the most."""
    running = broker({ALTER: altered})
    with pytest.raises(ClusterError) as raised:
        cluster(protocol, running.address).alter({ALICE: 5.0, QuotaEntity("ж" * 16_384): 1.0})
    assert re.fullmatch(
        r"cannot set the quotas of .*AlterClientQuotas.*: a string has 32768 bytes.*", str(raised.value)
    )


def test_a_rejected_change_is_reported_with_the_brokers_reason(protocol, broker):
    running = broker({ALTER: lambda request: altered(request, {"bob": (42, "it is Tuesday")})})
    rates = {ALICE: 5.0, BOB: 7.0}
    assert cluster(protocol, running.address).alter(rates) == {BOB: "it is Tuesday"}
    running = broker(
        {
            ALTER: lambda request: altered(request, {"bob": (42, None)}),
            DESCRIBE: described(entry([("user", "alice")], controller_mutation_rate=5.0)),
        }
    )
    expected = (
        f"Kafka at {running.address} rejects 1 of 2 quotas, such as user-principal 'bob': Broker: Invalid request"
    )
    with pytest.raises(ClusterError, match=re.escape(expected)):
        cluster(protocol, running.address).push(rates)


class ThirdTime:
    """A time limit that has passed when it is asked for the third time."""

    def __init__(self, _seconds):
        self._asked = 0

    @property
    def has_passed(self):
        self._asked += 1
        return self._asked == 3


@pytest.mark.parametrize(
    ("rates", "shown"),
    [
        ({ALICE: 5.0}, described(entry([("user", "alice")], controller_mutation_rate=9.0))),
        ({ALICE: None}, described(entry([("user", "alice")], controller_mutation_rate=5.0))),
    ],
)
def test_a_change_without_effect_is_an_error_once_the_time_is_over(protocol, broker, rates, shown, monkeypatch):
    """The cluster is read again until then."""
    monkeypatch.setattr("quota.kafka.brokers.cluster_quotas.Deadline", ThirdTime)
    running = broker({ALTER: altered, DESCRIBE: shown})
    with pytest.raises(ClusterError, match="has accepted 1 quotas but does not have 1 of them, such as user-principal"):
        cluster(protocol, running.address).push(rates)
    assert [key for key, _ in running.requests if key == DESCRIBE] == [DESCRIBE] * 3


def test_a_broker_without_the_api_is_too_old(protocol, broker):
    running = broker({}, versions={SASL_HANDSHAKE: 1, SASL_AUTHENTICATE: 1})
    with pytest.raises(ClusterError, match="it is too old: client quotas"):
        cluster(protocol, running.address).read()


def test_an_older_version_of_the_api_is_supported(protocol, broker):
    running = broker({DESCRIBE: described(entry([("user", "alice")], controller_mutation_rate=5.0))}, {DESCRIBE: 0})
    assert cluster(protocol, running.address).read() == {ALICE: 5.0}


@pytest.mark.parametrize("unreachable", ["127.0.0.1:1", "a..b:9092"])
def test_the_next_server_is_tried_if_one_is_unreachable(protocol, broker, unreachable):
    running = broker({DESCRIBE: described()})
    assert cluster(protocol, f"{unreachable},{running.address}").read() == {}


def test_an_unreachable_cluster_is_one_line_with_each_server(protocol):
    with pytest.raises(ClusterError) as error:
        cluster(protocol, "127.0.0.1:1,127.0.0.1:2").read()
    assert str(error.value) == (
        "cannot read the quotas of Kafka at 127.0.0.1:1: connection refused, 127.0.0.1:2: connection refused"
        "; start it (mutation-quota run, or mutation-quota broker), or set kafka.bootstrap_servers; "
        "for TLS or SASL also kafka.security_protocol"
    )


def test_an_unresponsive_server_is_awaited_as_long_as_configured(protocol):
    begun = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ClusterError, match=f"Kafka at 127.0.0.1:{port}: no answer"):
            cluster(protocol, f"127.0.0.1:{port}", seconds=0.3).read()
    assert 0.3 <= time.monotonic() - begun < SECONDS / 2


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", "it closes the connection, as a listener with another security protocol does"),
        (b"HTTP/1.1 400 Bad Request\r\n", "this is not a broker, or its listener has another security protocol"),
        (b"\x00\x00\x00\x02\x00\x00", "a response is truncated within its header"),
    ],
)
def test_a_server_that_is_not_a_broker_is_reported(protocol, response, reason):
    with answering(response) as (port, _), pytest.raises(ClusterError, match=re.escape(reason)):
        cluster(protocol, f"127.0.0.1:{port}").read()


PLAIN = Security("SASL_PLAINTEXT", "PLAIN", "ann", "secret")


def test_a_rejected_login_is_reported_without_the_secret_and_no_other_server_is_tried(protocol, broker):
    answer = {"errorCode": 58, "errorMessage": "Authentication failed", "authBytes": b"", "sessionLifetimeMs": 0}
    running = broker({SASL_HANDSHAKE: {"errorCode": 0, "mechanisms": []}, SASL_AUTHENTICATE: answer})
    with pytest.raises(ClusterError) as error:
        cluster(protocol, f"{running.address},127.0.0.1:1", PLAIN).read()
    assert str(error.value) == f"cannot read the quotas of Kafka at {running.address}: Authentication failed"


def test_an_invalid_utf_8_response_to_a_scram_login_is_an_error_of_the_cluster(protocol, broker):
    running = broker(accepted_login("SCRAM-SHA-512", b"\xff"))
    security = Security("SASL_PLAINTEXT", "SCRAM-SHA-512", "ann", "secret")
    with pytest.raises(ClusterError, match="the response to the login by SCRAM-SHA-512 is malformed"):
        cluster(protocol, running.address, security).read()
