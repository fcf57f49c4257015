"""Records are written with back-pressure, and no error of a delivery is lost; without a broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from quota.kafka.producing import RecordProducer, produce

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
    for _ in range(3):
        produce(producer, "topic", b"value", None, lambda error, _: failed.append(error.code()))
    producer.flush(10)
    assert failed == [TIMED_OUT] * 3
