"""Records are written with back-pressure, and no error of a delivery is lost; without a broker."""

import os
import signal
import threading

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from quota.errors import ClusterError, Interrupted
from quota.kafka import producers
from quota.kafka.dead_letters import StoredDeadLetter, send
from quota.kafka.producers import PositionWriter, RecordProducer, produce, write_each
from quota.kafka.quotas.writer import QuotaWriter
from quota.records.dead_letter import DeadLetter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.record import Source
from quota.settings import load_settings
from tests.support.deployment import with_sections

TIMED_OUT = KafkaError._MSG_TIMED_OUT  # noqa: SLF001


def records(**config):
    """A producer whose records fail after 50 ms, because nobody listens on port 1."""
    return RecordProducer(
        {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 50, "log_level": 0, "linger.ms": 0, **config}
    )


def code_of(raised):
    return raised.value.args[0].code()


def test_the_first_error_is_raised_by_every_later_call():
    writer = records()
    writer.send("topic", b"value")
    for call in (lambda: writer.flush(10), lambda: writer.send("topic", b"next"), lambda: writer.flush(10)):
        with pytest.raises(KafkaException) as raised:
            call()
        assert code_of(raised) == TIMED_OUT


def test_a_record_without_an_answer_in_time_is_an_error_of_the_flush():
    writer = records(**{"message.timeout.ms": 60_000})
    writer.send("topic", b"value")
    with pytest.raises(KafkaException, match="no answer in 0 s"):
        writer.flush(0.1)


def test_a_record_that_is_too_large_is_an_error_at_once_and_of_the_flush():
    writer = records(**{"message.max.bytes": 1000})
    for call in (lambda: writer.send("topic", bytes(2000)), lambda: writer.flush(10)):
        with pytest.raises(KafkaException) as raised:
            call()
        assert code_of(raised) == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_full_queue_is_waited_for():
    """The queue has room for one record, and each leaves it when its time is over."""
    failed = []
    producer = Producer(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "queue.buffering.max.messages": 1,
            "message.timeout.ms": 50,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    for _ in range(2):
        produce(producer, "topic", b"value", None, lambda error, _: failed.append(error.code()))
    producer.flush(10)
    assert failed == [TIMED_OUT] * 2


class Partitions:
    """A producer of whose records some are refused at once, some when they are delivered, and some never answered."""

    def __init__(self):
        self.written, self._waiting = [], 0

    def produce(self, topic, value, key, partition, on_delivery):
        match value:
            case b"large":
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
            case b"denied":
                on_delivery(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), None)
            case b"lost":
                self._waiting += 1
            case _:
                self.written.append((topic, value, key, partition))
                on_delivery(None, None)

    def flush(self, _):
        return self._waiting


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"large", KafkaError.MSG_SIZE_TOO_LARGE),
        (b"denied", KafkaError.TOPIC_AUTHORIZATION_FAILED),
        (b"lost", KafkaError._TIMED_OUT),  # noqa: SLF001
        (b"c", None),
    ],
)
def test_each_record_is_written_whatever_becomes_of_the_others(value, code):
    partitions = Partitions()
    error = write_each(partitions, "t", [(b"a", b"k", 2), (value, b"k", 0), (b"b", None, 1)], 0.1)
    assert (error and error.code()) == code
    assert {("t", b"a", b"k", 2), ("t", b"b", None, 1)} <= set(partitions.written)


def unreachable(base_settings, timeout_seconds):
    kafka = {"bootstrap_servers": "127.0.0.1:1", "timeout_seconds": timeout_seconds}
    return with_sections(base_settings, kafka=kafka)


LETTER = StoredDeadLetter(
    b"alice", DeadLetter(error="x", value="{}", timestamp=0, source=Source("mutation-requests", 0, 7)), 0
)
QUOTA = QuotaRecord(QuotaEntity("alice"), 5.0)
WRITES = {
    "quotas": (
        lambda settings: QuotaWriter(settings).write([QUOTA] * 3),
        r"0 of 3 changes set",
        "; see quotas history",
    ),
    "dead letters": (lambda settings: send(settings, [(LETTER, b"{}")] * 2), "0 of 2 requests sent", ""),
}


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("write", "written", "advice"), WRITES.values(), ids=WRITES)
def test_an_interrupted_write_says_what_is_written_and_that_the_rest_may_be(
    base_settings, monkeypatch, write, written, advice
):
    flush = RecordProducer.flush

    def interrupted(producer, seconds):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        flush(producer, seconds)

    monkeypatch.setattr(RecordProducer, "flush", interrupted)
    with pytest.raises(Interrupted) as raised:
        write(unreachable(base_settings, 60))
    assert str(raised.value) == f"interrupted: {written}, and others may be{advice}"
    assert raised.value.exit_code == 130


@pytest.mark.parametrize(("write", "written", "_"), WRITES.values(), ids=WRITES)
def test_a_write_that_fails_says_what_is_written_and_the_first_error(base_settings, write, written, _):
    with pytest.raises(ClusterError, match=written):
        write(unreachable(base_settings, 0.3))


class Brokers:
    """Brokers that allow transactions of up to so many seconds; the producers are librdkafka's own."""

    def __init__(self, monkeypatch, longest_seconds):
        self.configs, self._longest_ms = [], longest_seconds * 1000
        monkeypatch.setattr(producers, "Producer", self)

    def __call__(self, config):
        Producer(config)  # raises an error for properties that contradict each other
        self.configs.append(config)
        return self

    def init_transactions(self, _):
        if self.configs[-1]["transaction.timeout.ms"] > self._longest_ms:
            raise KafkaException(KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT))


def open_writer(seconds=900, *properties):
    given = [f"kafka.librdkafka.{given}" for given in properties]
    settings = load_settings(given, environment={}, with_default_file=False)
    return PositionWriter(settings, "applier", "group", 1000, seconds)


@pytest.mark.parametrize(("longest", "seconds"), [(900, [900]), (899, [900, 450]), (60, [900, 450, 225, 112, 56])])
def test_a_transaction_is_as_long_as_the_brokers_allow(monkeypatch, caplog, longest, seconds):
    brokers = Brokers(monkeypatch, longest)
    open_writer()
    assert [config["transaction.timeout.ms"] // 1000 for config in brokers.configs] == seconds
    assert caplog.text.count("(transaction.max.timeout.ms), trying") == len(seconds) - 1


def test_brokers_that_allow_no_useful_transaction_are_an_error(monkeypatch):
    Brokers(monkeypatch, 1)
    with pytest.raises(ClusterError, match="cannot take over as applier group at"):
        open_writer()


@pytest.mark.parametrize("name", ["message.timeout.ms", "delivery.timeout.ms", "socket.timeout.ms"])
@pytest.mark.parametrize(("given", "used"), [(250_000, 60_000), (30_000, 30_000)])
def test_a_limit_for_all_producers_is_shortened_to_that_of_a_transaction(monkeypatch, name, given, used):
    """What is valid for other producers, librdkafka refuses for one with transactions."""
    brokers = Brokers(monkeypatch, 900)
    open_writer(60, f"{name}={given}")
    assert brokers.configs[-1][name] == used


def test_a_property_that_contradicts_transactions_is_one_line_with_its_name(monkeypatch):
    Brokers(monkeypatch, 900)
    with pytest.raises(ClusterError, match=r"cannot take over as applier group at .*: Failed .* `acks` must be set to"):
        open_writer(900, "acks=1")
