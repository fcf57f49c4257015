"""Kafka clients without a cluster: errors, retries, deadlines and permissions."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from quota.errors import ClusterError
from quota.kafka import clients, timing
from quota.kafka.applier.applier import TopicPermissions
from quota.kafka.clients import client_config, cluster_errors, retry
from quota.kafka.timing import Backoff, Deadline, Every
from quota.settings.connection import Connection, Security

TRANSPORT, ALL_DOWN = KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 librdkafka's own codes
WRONG_PASSWORD = KafkaError._AUTHENTICATION  # noqa: SLF001

TLS = Security("SSL")
KAFKA = Connection("b:1", TLS)
DENIED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Broker: Topic authorization failed."))
UNREACHABLE = KafkaException(KafkaError(TRANSPORT, "Local: Broker transport failure"))


class FakeAdminClient:
    """A client to which librdkafka reports these errors, one a poll."""

    errors = ()

    def __init__(self, config):
        assert config == client_config(Connection(config["bootstrap.servers"], TLS)) | {"error_cb": config["error_cb"]}
        self._report = config["error_cb"]
        self._left = list(self.errors)

    def poll(self, _seconds):
        if self._left:
            self._report(self._left.pop(0))


@pytest.fixture
def reporting(monkeypatch):
    """Make the client that looks for a cause report these errors."""

    def _reporting(*errors, seconds=60):
        FakeAdminClient.errors = errors
        monkeypatch.setattr(clients, "AdminClient", FakeAdminClient)
        monkeypatch.setattr(clients, "_CAUSE_SECONDS", seconds)

    return _reporting


def failing(error, connection=KAFKA, hint=""):
    """Return the message of the error that `cluster_errors` makes of another."""
    with pytest.raises(ClusterError) as raised, cluster_errors("read the topic", connection, hint):
        raise error
    assert raised.value.__suppress_context__
    return str(raised.value)


def test_an_error_of_kafka_becomes_one_line_with_what_was_done_why_it_failed_and_advice():
    assert failing(DENIED) == "cannot read the topic: Broker: Topic authorization failed"
    assert failing(DENIED, hint="; ask for rights") == (
        "cannot read the topic: Broker: Topic authorization failed; ask for rights"
    )


def test_a_transport_error_is_explained_by_the_error_of_another_client(reporting):
    reporting(
        KafkaError(ALL_DOWN, "1/1 brokers are down"),
        KafkaError(WRONG_PASSWORD, "invalid credentials"),
    )
    assert failing(UNREACHABLE) == "cannot read the topic: invalid credentials"


def test_a_transport_error_without_a_known_cause_is_unchanged(reporting):
    reporting(KafkaError(ALL_DOWN, "1/1 brokers are down"), seconds=0.05)
    assert failing(UNREACHABLE) == "cannot read the topic: Local: Broker transport failure"


REJECTED = "Connect to ipv4#127.0.0.1:9092 failed: Connection refused"


@pytest.mark.parametrize(("servers", "expected"), [("b:1", REJECTED), ("b:1,c:1", f"b:1/bootstrap: {REJECTED}")])
def test_a_cause_omits_timing_and_a_server_that_the_error_names(reporting, servers, expected):
    reporting(KafkaError(WRONG_PASSWORD, f"b:1/bootstrap: {REJECTED} (after 0ms in state CONNECT)"))
    assert failing(UNREACHABLE, Connection(servers, TLS)) == f"cannot read the topic: {expected}"


def test_other_errors_pass_unchanged():
    with pytest.raises(ClusterError, match="another"), cluster_errors("read the topic", KAFKA):
        raise ClusterError("another")


@pytest.mark.parametrize(("protocol", "advised"), [("PLAINTEXT", True), ("SASL_SSL", False)])
def test_an_error_of_an_unresponsive_cluster_has_advice_if_its_reason_is_unspecific(monkeypatch, protocol, advised):
    monkeypatch.setattr(clients, "_cause", lambda _error, _config: "rejected")
    connection = Connection("b:1", Security(protocol))
    hint = "; check the address (kafka.bootstrap_servers), the network and the listener; "
    assert (f"cannot read the topic: rejected{hint}" in failing(UNREACHABLE, connection)) == advised
    assert "check the address" not in failing(DENIED, connection)


def test_advice_names_the_settings_of_the_connection(monkeypatch):
    monkeypatch.setattr(clients, "_cause", lambda _error, _config: "rejected")
    assert failing(UNREACHABLE, Connection("b:1", servers_from="--source-server")) == (
        "cannot read the topic: rejected; check the address (--source-server), the network and the listener; "
        "for TLS or SASL also kafka.security_protocol"
    )


def test_overrides_come_last_in_a_configuration():
    connection = Connection("b:1")
    assert client_config(connection)["log_level"] == 2
    assert client_config(connection, {"log_level": 7, "group.id": "g"}) == {
        **connection.librdkafka(),
        "log_level": 7,
        "group.id": "g",
    }


class Flaky:
    """A call that fails with these errors before it works."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def __call__(self):
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def _at_once(monkeypatch):
    monkeypatch.setattr(clients.time, "sleep", lambda _: None)


@pytest.mark.usefixtures("_at_once")
def test_a_call_is_retried_until_it_succeeds():
    assert retry(Flaky(UNREACHABLE, DENIED), Deadline(60)) == "done"


def test_a_call_is_made_once_even_after_its_deadline():
    assert retry(Flaky(), Deadline(0)) == "done"
    with pytest.raises(KafkaException, match="transport failure"):
        retry(Flaky(UNREACHABLE), Deadline(0))


@pytest.mark.usefixtures("_at_once")
def test_an_error_with_another_code_than_those_given_is_final():
    codes = {TRANSPORT}
    call = Flaky(UNREACHABLE, DENIED, UNREACHABLE)
    with pytest.raises(KafkaException, match="authorization failed"):
        retry(call, Deadline(60), codes)
    assert len(call.errors) == 1


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests advance."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    fixed = Clock()
    monkeypatch.setattr(timing, "time", fixed)
    return fixed


def test_a_deadline_passes_at_its_time(clock):
    deadline = Deadline(5)
    clock.now += 4.5
    assert (deadline.has_passed, deadline.left()) == (False, 0.5)
    clock.now += 0.5
    assert (deadline.has_passed, deadline.left(), deadline.left(at_least=0.1)) == (True, 0.0, 0.1)


@pytest.mark.parametrize("at_once", [True, False])
def test_an_interval_is_due_at_once_unless_it_is_told_to_wait_and_then_once_per_period(clock, at_once):
    every = Every(2, at_once=at_once)
    assert (every.is_due(), every.is_due()) == (at_once, False)
    clock.now += 1.9
    assert not every.is_due()
    clock.now += 0.1
    assert (every.is_due(), every.is_due()) == (True, False)


def test_pauses_grow_to_the_longest_one_and_no_two_programs_have_the_same():
    limits = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    ones, others = Backoff(0.1, 1.0), Backoff(0.1, 1.0)
    pauses = [(ones.next(), others.next()) for _ in limits]
    assert all(limit / 2 <= pause <= limit for pair, limit in zip(pauses, limits, strict=True) for pause in pair)
    assert len({pause for pair in pauses for pause in pair}) == 12


@pytest.mark.parametrize(
    ("pattern", "user", "client_id", "allowed", "denied"),
    [
        (".*", "alice", "app", ["orders", "_orders", "orders__eu"], ["__consumer_offsets", "__"]),
        ("__.*", "alice", "app", [], ["__consumer_offsets"]),
        ("orders", "alice", "app", ["orders"], ["my-orders", "orders-2", "orders\n", "ORDERS", ""]),
        ("a|bc", "alice", "app", ["a", "bc"], ["ac", "ab"]),
        ("{user}-.*", "alice", "app", ["alice-orders"], ["bob-orders", "app-orders"]),
        ("{client_id}[.].*", "alice", "app", ["app.orders"], ["alice.orders"]),
        # The names of users and clients are matched literally.
        ("{user}-.*", "a.*", "app", ["a.*-x"], ["alice-x"]),
        ("{user}-.*", "a|.*", "app", ["a|.*-x"], ["a"]),
        ("{user}-.*", "{client_id}", "app", ["{client_id}-x"], ["app-x"]),
        ("{client_id}", "alice", ".*", [".*"], ["orders"]),
        ("{client_id}", "alice", "{user}", ["{user}"], ["alice"]),
    ],
)
def test_a_pattern_allows_the_whole_names_that_match_it(pattern, user, client_id, allowed, denied):
    permissions = TopicPermissions(pattern)
    names = [name for name in (*allowed, *denied) if permissions.denial(name, user, client_id) is None]
    assert names == allowed


def test_a_protected_topic_cannot_be_changed_and_others_can():
    permissions = TopicPermissions(".*", iter(["mutation-requests", "mutation.decisions"]), "users")
    denials = {
        name: permissions.denial(name, "alice", "app")
        for name in ("mutation-requests", "mutation.decisions", "users.bob", "mutation-requests-2", "usersXbob")
    }
    assert denials == {
        "mutation-requests": "topic mutation-requests is protected",
        "mutation.decisions": "topic mutation.decisions is protected",
        "users.bob": "topic users.bob is protected",
        "mutation-requests-2": None,
        "usersXbob": None,
    }
    assert permissions.denial("mutation-decisions", "alice", "app") is None  # a name, and no pattern
    assert TopicPermissions().denial("users.bob", "alice", "app") is None


def test_a_denial_names_the_setting():
    reason = TopicPermissions("{user}-.*").denial("bob-orders", "alice", "app")
    assert reason == "alice may not change topic bob-orders: applier.topic_pattern is {user}-.*"
