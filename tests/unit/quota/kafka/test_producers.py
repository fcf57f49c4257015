"""Records are written with back-pressure, and no error of a delivery is lost; without a broker."""

import os
import signal
import threading

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from quota.errors import ClusterError, Interrupted
from quota.kafka.dead_letters import StoredDeadLetter, send
from quota.kafka.producers import RecordProducer, produce
from quota.kafka.quotas.writer import QuotaWriter
from quota.records.dead_letter import DeadLetter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.record import Source
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


@pytest.fixture
def interruptible():
    """Python's own handler of Ctrl-C: that of a session of Spark, in the same process, would kill its JVM."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


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
