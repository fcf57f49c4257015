"""Clients of librdkafka: their errors, retries, and when one that a program keeps is replaced."""

import gc
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from quota.errors import ClusterError
from quota.kafka import librdkafka
from quota.kafka.librdkafka import KeptClient, client_config, cluster_errors, retry
from quota.kafka.quotas.log import KafkaQuotas, QuotaLog
from quota.kafka.requests_and_answers import AnswerReader
from quota.kafka.timing import Deadline
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import load_settings
from quota.settings.connection import Connection, Security
from tests.support.waiting import until

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
        monkeypatch.setattr(librdkafka, "AdminClient", FakeAdminClient)
        monkeypatch.setattr(librdkafka, "_CAUSE_SECONDS", seconds)

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
    monkeypatch.setattr(librdkafka, "_cause", lambda _error, _config: "rejected")
    connection = Connection("b:1", Security(protocol))
    hint = "; check the address (kafka.bootstrap_servers), the network and the listener; "
    assert (f"cannot read the topic: rejected{hint}" in failing(UNREACHABLE, connection)) == advised
    assert "check the address" not in failing(DENIED, connection)


def test_advice_names_the_settings_of_the_connection(monkeypatch):
    monkeypatch.setattr(librdkafka, "_cause", lambda _error, _config: "rejected")
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
    monkeypatch.setattr(librdkafka.time, "sleep", lambda _: None)


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


LOST = KafkaError(TRANSPORT)


@pytest.fixture
def clock(monkeypatch):
    """A list whose only element is the time [s]."""
    now = [100.0]
    monkeypatch.setattr(librdkafka.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def kept(clock):
    """A client that is made at 100 s; each is named after its time."""
    return KeptClient(lambda: f"made at {clock[0]:g}")


def fail(kept, error=LOST):
    with pytest.raises(KafkaException), kept.reporting():
        raise KafkaException(error)


def test_a_kept_client_is_replaced_if_it_fails_ten_seconds_after_its_last_response(kept, clock):
    clock[0] = 105
    with kept.reporting() as client:
        assert client == "made at 100"
    clock[0] = 114.9
    fail(kept)
    assert kept.client == "made at 100"
    clock[0] = 115
    fail(kept)
    assert kept.client == "made at 115"
    clock[0] = 124.9  # a new one has the same time
    fail(kept)
    assert kept.client == "made at 115"


@pytest.mark.parametrize("code", ["_TIMED_OUT", "_ALL_BROKERS_DOWN", "_MSG_TIMED_OUT", "_UNKNOWN_PARTITION", "_NOENT"])
def test_each_error_without_a_response_counts(kept, clock, code):
    clock[0] = 110
    kept.report(kept.client, KafkaError(getattr(KafkaError, code)))
    assert kept.client == "made at 110"


def future(result):
    done = Future()
    if isinstance(result, KafkaError):
        done.set_exception(KafkaException(result))
    else:
        done.set_result(result)
    return done


def test_the_futures_of_a_call_are_results_and_errors_and_one_response_is_enough(kept, clock):
    clock[0] = 110
    assert kept.results(kept.client, {"a": future(1), "b": future(LOST)}) == ({"a": 1}, {"b": LOST})
    assert kept.client == "made at 100"
    clock[0] = 120
    assert kept.results(kept.client, {"a": future(LOST), "b": future(LOST)}) == ({}, {"a": LOST, "b": LOST})
    assert kept.client == "made at 120"


def test_an_error_of_a_broker_is_a_response(kept, clock):
    clock[0] = 110
    fail(kept, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    clock[0] = 119
    fail(kept)
    assert kept.client == "made at 100"


def test_a_late_failure_of_a_former_client_does_not_replace_its_successor(kept, clock):
    former, clock[0] = kept.client, 110
    fail(kept)
    clock[0] = 120
    kept.report(former, LOST)
    assert kept.client == "made at 110"


@pytest.mark.parametrize("problem", [KafkaException(KafkaError(KafkaError._INVALID_ARG)), ClusterError("no token")])  # noqa: SLF001
def test_a_kept_client_stays_if_no_other_can_be_made(clock, problem):
    """The caller gets the error of the client that it has used, and ten seconds later another is made."""
    makes = iter(["first", problem, "second"])

    def make():
        if (made := next(makes)) is problem:
            raise problem
        return made

    kept = KeptClient(make)
    for clock[0] in (110, 119):
        fail(kept)
        assert kept.client == "first"
    clock[0] = 120
    fail(kept)
    assert kept.client == "second"


UNREACHED = load_settings(
    ["kafka.bootstrap_servers=127.0.0.1:1", "kafka.timeout_seconds=0.1"], environment={}, with_default_file=False
)


def topics():
    return TopicAdmin(UNREACHED.kafka.connection, 0.1)


@pytest.mark.parametrize(
    "use",
    [
        lambda: topics().layout(),
        lambda: topics().ids(["t"]),
        lambda: topics().configs(["t"]),
        lambda: topics().offsets([("t", 0)]),
        lambda: AnswerReader(UNREACHED),
        lambda: QuotaLog(KafkaQuotas.from_settings(UNREACHED, 0.1)),
    ],
    ids=["layout", "ids", "configs", "offsets", "answers", "quota log"],
)
def test_a_client_that_reached_nobody_ends_with_its_user(use):
    """A service tries again for as long as an outage lasts, and each client has several threads and sockets."""
    threads = Path("/proc/self/task")
    gc.collect()
    gc.disable()
    try:
        before = len(list(threads.iterdir()))
        for _ in range(3):
            with suppress(ClusterError, KafkaException):
                use()
        until(lambda: len(list(threads.iterdir())) <= before, 10)
    finally:
        gc.enable()
