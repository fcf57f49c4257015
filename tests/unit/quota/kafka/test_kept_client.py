"""When a client that a program keeps is replaced."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from quota.errors import ClusterError
from quota.kafka import kept_client
from quota.kafka.kept_client import KeptClient

TRANSPORT = KafkaError(KafkaError._TRANSPORT)  # noqa: SLF001


@pytest.fixture
def clock(monkeypatch):
    """A list whose only element is the time [s]."""
    now = [100.0]
    monkeypatch.setattr(kept_client.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def kept(clock):
    """A client that is made at 100 s; each is named after its time."""
    return KeptClient(lambda: f"made at {clock[0]:g}")


def fail(kept, error=TRANSPORT):
    with pytest.raises(KafkaException), kept.use():
        raise KafkaException(error)


def test_it_is_replaced_if_it_fails_ten_seconds_after_its_last_response(kept, clock):
    clock[0] = 105
    with kept.use() as client:
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
    kept.note(kept.client, KafkaError(getattr(KafkaError, code)))
    assert kept.client == "made at 110"


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
    kept.note(former, TRANSPORT)
    assert kept.client == "made at 110"


@pytest.mark.parametrize("problem", [KafkaException(KafkaError(KafkaError._INVALID_ARG)), ClusterError("no token")])  # noqa: SLF001
def test_it_stays_if_no_other_can_be_made(clock, problem):
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
