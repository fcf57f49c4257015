"""The end offsets of replicas, with simulated brokers."""

import threading
import time
from contextlib import ExitStack, closing
from types import SimpleNamespace

import pytest

from jobs.sandbox.broker import free_port
from quota.kafka import timing
from quota.kafka.brokers import replica_ends
from quota.kafka.brokers.replica_ends import ReplicaEnds
from quota.settings.connection import Connection, Security
from tests.support.scripted_broker import ScriptedBroker, accepted_login
from tests.support.waiting import until

LIST_OFFSETS, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 2, 17, 18, 36
NOT_A_REPLICA, NOT_ALLOWED = 6, 29


@pytest.fixture
def broker(protocol):
    """Return a function that starts a broker with these answers, until the end of the test."""
    with ExitStack() as stack:
        yield lambda answers: stack.enter_context(ScriptedBroker(protocol, answers).listening())


@pytest.fixture
def replicas():
    with closing(ReplicaEnds(Connection("ignored:9092"), "quotas")) as made:
        yield made


def ends(**offsets):
    """Return the response with these offsets, or an error if one is None."""
    partitions = [
        {
            "partitionIndex": int(number.removeprefix("p")),
            "errorCode": NOT_A_REPLICA if offset is None else 0,
            "timestamp": -1,
            "offset": -1 if offset is None else offset,
            "leaderEpoch": 5,
        }
        for number, offset in offsets.items()
    ]
    return {LIST_OFFSETS: {"throttleTimeMs": 0, "topics": [{"name": "quotas", "partitions": partitions}]}}


def at(broker):
    return ("127.0.0.1", broker.port)


def test_the_largest_end_offset_of_the_replicas_counts(broker, replicas):
    """A former leader does not know the new one yet."""
    first, second = broker(ends(p0=7, p1=3)), broker(ends(p0=9))
    assert replicas.fetch({at(first): [0, 1], at(second): [0]}) == ({0: 9, 1: 3}, True)


def test_brokers_are_requested_like_replicas_on_one_connection(broker, replicas):
    made = broker(ends(p0=7))
    for _ in range(2):
        replicas.fetch({at(made): [0]})
    partition = {"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": -1}
    question = {"replicaId": -2, "isolationLevel": 0, "topics": [{"name": "quotas", "partitions": [partition]}]}
    assert made.requests == [(API_VERSIONS, {}), (LIST_OFFSETS, question), (LIST_OFFSETS, question)]


def test_a_broker_that_closes_an_idle_connection_is_reconnected(broker, replicas):
    answers = [ends(p0=7)[LIST_OFFSETS], None, ends(p0=8)[LIST_OFFSETS]]
    made = broker({LIST_OFFSETS: lambda _: answers.pop(0)})
    assert [replicas.fetch({at(made): [0]}) for _ in range(2)] == [({0: 7}, True), ({0: 8}, True)]


def test_a_broker_without_the_replica_reports_nothing_about_it(broker, replicas, caplog):
    assert replicas.fetch({at(broker(ends(p0=None, p1=2))): [0, 1]}) == ({1: 2}, False)
    assert caplog.text == ""


def test_another_error_is_reported(broker, replicas, caplog):
    answer = ends(p0=7)
    answer[LIST_OFFSETS]["topics"][0]["partitions"][0]["errorCode"] = NOT_ALLOWED
    assert replicas.fetch({at(broker(answer)): [0]}) == ({}, False)
    assert (
        "does not return the log end offset of its replica of topic quotas: Broker: Topic authorization failed"
        in caplog.text
    )


def test_a_broker_that_hangs_is_skipped_logged_once_and_polled_again_later(broker, replicas, caplog, monkeypatch):
    """Each read would have to wait for it."""
    monkeypatch.setattr(replica_ends, "_RESPONSE_SECONDS", 0.5)
    later, monotonic = [0], time.monotonic
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: monotonic() + later[0]))
    resumed = threading.Event()
    hanging = broker({LIST_OFFSETS: lambda _: resumed.wait(30) and None})
    present = broker(ends(p0=7))
    for _ in range(3):
        assert replicas.fetch({at(hanging): [0], at(present): [0]}) == ({0: 7}, False)
    assert [key for key, _ in hanging.requests] == [API_VERSIONS, LIST_OFFSETS]
    resumed.set()
    later[0] = 10
    hanging.answers |= ends(p0=9)
    until(lambda: replicas.fetch({at(hanging): [0], at(present): [0]}) == ({0: 9}, True), 30)
    assert [record.getMessage() for record in caplog.records] == [
        f"127.0.0.1:{hanging.port} does not return the log end offset of its replica of topic quotas: no answer"
    ]


@pytest.mark.parametrize(
    ("host", "reason"),
    [("127.0.0.1", "connection refused"), ("a..b", "label empty or too long")],
)
def test_an_unreachable_broker_is_skipped(broker, replicas, caplog, host, reason):
    present = broker(ends(p0=7))
    assert replicas.fetch({(host, free_port()): [0], at(present): [0]}) == ({0: 7}, False)
    assert reason in caplog.text


def test_a_broker_that_is_no_longer_a_replica_is_disconnected(broker, replicas):
    first, second = broker(ends(p0=7)), broker(ends(p0=8))
    replicas.fetch({at(first): [0]})
    replicas.fetch({at(second): [0]})
    until(lambda: first.hung_up == 1)


def test_it_logs_in(broker):
    made = broker(accepted_login("PLAIN") | ends(p0=7))
    security = Security("SASL_PLAINTEXT", "PLAIN", "enforce", "secret")
    with closing(ReplicaEnds(Connection("ignored:9092", security), "quotas")) as replicas:
        assert replicas.fetch({at(made): [0]}) == ({0: 7}, True)
    assert [key for key, _ in made.requests] == [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, LIST_OFFSETS]
    assert made.requests[2][1] == {"authBytes": b"\0enforce\0secret"}
