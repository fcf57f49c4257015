"""Reads that cannot succeed end with an error, and do not wait for ever; and the window of a cluster."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from quota.errors import BadRecord, ClusterError
from quota.kafka import reading, timing
from quota.kafka.reading import Skipped
from quota.records.quota_log import Window
from quota.settings.connection import Connection

KAFKA = Connection("kafka:9092")
NUM, SIZE = "controller.quota.window.num", "controller.quota.window.size.seconds"


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


class Unresponsive:
    """A consumer that yields an error in each second, and no record."""

    def __init__(self, clock, code):
        self._clock, self._error = clock, code and KafkaError(code)

    def assign(self, _):
        pass

    def close(self):
        pass

    def poll(self, _):
        self._clock.seconds += 1
        return None if self._error is None else SimpleNamespace(error=lambda: self._error)

    def consume(self, *_):
        return []


@pytest.mark.parametrize(
    ("code", "expected", "after"),
    [
        (None, KafkaError._TIMED_OUT, 60),  # noqa: SLF001
        (KafkaError._TRANSPORT, KafkaError._TRANSPORT, 60),  # noqa: SLF001
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED, 1),
    ],
    ids=["no record", "no broker", "no permission"],
)
def test_a_topic_whose_end_is_never_reached_is_an_error(monkeypatch, clock, code, expected, after):
    monkeypatch.setattr(reading, "make_consumer", lambda *_: Unresponsive(clock, code))
    monkeypatch.setattr(reading, "topic_partitions", lambda *_: [0])
    monkeypatch.setattr(reading, "offset_range", lambda *_: (0, 5))
    with pytest.raises(KafkaException) as raised:
        list(reading.read_topic(KAFKA, "decisions", 60))
    assert (raised.value.args[0].code(), clock.seconds) == (expected, 100 + after)


class Held(Unresponsive):
    """A consumer of records that others have committed, and a transaction that was open before them and ends later."""

    def __init__(self, clock, ends_after):
        super().__init__(clock, None)
        self._at, self._ends_at = 3, clock.seconds + ends_after
        self._messages = [_end(3)]

    def get_watermark_offsets(self, *_, cached):
        assert cached
        return 0, 5

    def poll(self, _):
        super().poll(_)
        if not self._messages and self._at == 3 and self._clock.seconds >= self._ends_at:
            self._messages, self._at = [Message("positions", 0, 4, b"own", b"{}"), _end(5)], 5
        return self._messages.pop(0) if self._messages else None


def _end(offset):
    return Message("positions", 0, offset, error=KafkaError(KafkaError._PARTITION_EOF))  # noqa: SLF001


@pytest.mark.parametrize(("ends_after", "read"), [(600, [4]), (1000, None)])
def test_what_an_open_transaction_hides_is_awaited_where_nothing_may_be_missing(
    monkeypatch, clock, caplog, ends_after, read
):
    """A group's position that another group's transaction hides is the latest one all the same."""
    caplog.set_level("INFO")
    monkeypatch.setattr(reading, "topic_partitions", lambda *_: [0])
    monkeypatch.setattr(reading, "offset_range", lambda *_: (0, 3))
    held = Held(clock, ends_after)
    monkeypatch.setattr(reading, "make_consumer", lambda *_: held)
    assert list(reading.read_topic(KAFKA, "positions", 5)) == []
    assert caplog.text == ""
    held = Held(clock, ends_after)
    messages = reading.read_topic(KAFKA, "positions", 5, await_open=True)
    if read is None:
        with pytest.raises(KafkaException):
            list(messages)
    else:
        assert [message.offset() for message in messages] == read
    assert "a transaction has been open on positions-0 since offset 3" in caplog.text


def window_of(monkeypatch, nodes, answer):
    """Return the window that is read from a cluster with these nodes, whose brokers answer with configs or an error."""

    class Admin:
        def __init__(self, _config):
            pass

        def list_topics(self, timeout):
            return SimpleNamespace(brokers=dict.fromkeys(nodes), timeout=timeout)

        def describe_configs(self, resources, request_timeout):
            (resource,) = resources
            assert (resource.name, request_timeout) == ("7", 5)
            future = Future()
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result({name: SimpleNamespace(value=value) for name, value in answer.items()})
            return {resource: future}

    monkeypatch.setattr(reading, "AdminClient", Admin)
    return reading.read_window(KAFKA, 5)


def test_the_window_is_that_of_a_broker(monkeypatch):
    assert window_of(monkeypatch, [9, 7], {NUM: "100", SIZE: "2", "password": None}) == Window(100, 2)


@pytest.mark.parametrize(
    ("nodes", "answer", "reason"),
    [
        ([7], KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)), "cannot read the window of Kafka"),
        ([7], {"log.dirs": "/"}, "requires Kafka 2.7"),
        ([], {}, "the cluster's metadata contain no brokers"),
    ],
)
def test_a_cluster_that_does_not_tell_its_window_is_an_error(monkeypatch, nodes, answer, reason):
    with pytest.raises(ClusterError, match=reason):
        window_of(monkeypatch, nodes, answer)


def test_each_skipped_record_counts_and_one_in_ten_seconds_is_logged(clock, caplog):
    skipped, before = Skipped("a decision"), Skipped.counts["decisions"]
    for offset in range(1000):
        skipped.add(Message("decisions", 2, offset, None, b"{"), BadRecord("value: not JSON"))
    clock.seconds += 10
    skipped.add(Message("decisions", 2, 1000, None, b"{"), BadRecord("user: missing"))
    Skipped("a result").add(Message("results", 0, 5, None, b"{"), BadRecord("user: missing"))
    assert Skipped.counts["decisions"] - before == 1001
    assert caplog.messages == [
        "skipped decisions-2-0, which is not a decision: value: not JSON",
        "skipped decisions-2-1000 (and 999 before it), which is not a decision: user: missing",
        "skipped results-0-5, which is not a result: user: missing",
    ]
