"""A producer that waits while its queue is full, and whose errors reach the caller."""

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quota.kafka.timing import Deadline

_QUEUE_FULL_SECONDS = 0.1
_FLUSH_SECONDS = 0.1
"""The time of one call of librdkafka, during which Python handles no signal."""


def produce(
    producer: Producer,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
) -> None:
    """Enqueue a record, waiting while the queue is full."""
    while True:
        try:
            producer.produce(topic, value, key, on_delivery=on_delivery)
        except BufferError:
            producer.poll(_QUEUE_FULL_SECONDS)
        else:
            return


class RecordProducer:
    """A producer whose first error, of a record or of its delivery, is raised by all later calls."""

    def __init__(self, config: Mapping[str, str | float]) -> None:
        """Connect, with librdkafka's settings."""
        self.producer = Producer(dict(config))
        self.acknowledged = 0
        """The number of records that the cluster has acknowledged."""
        self._error: KafkaError | None = None

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        on_delivered: Callable[[Message], None] | None = None,
    ) -> None:
        """Enqueue a record, waiting while the queue is full; `on_delivered` is called if it is acknowledged."""

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._error = self._error or error
                return
            self.acknowledged += 1
            if on_delivered is not None:
                on_delivered(message)

        self._raise_error()
        try:
            produce(self.producer, topic, value, key, on_delivery)
        except KafkaException as error:
            self._error = error.args[0]
            raise
        self.producer.poll(0)

    def flush(self, seconds: float) -> None:
        """Wait until all records are acknowledged or have failed; signals are handled meanwhile."""
        deadline = Deadline(seconds)
        while (waiting := self.producer.flush(min(_FLUSH_SECONDS, deadline.left()))) and not deadline.has_passed:
            continue
        self._raise_error()
        if waiting:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer in {seconds:.0f} s"))  # noqa: SLF001

    def _raise_error(self) -> None:
        if self._error is not None:
            raise KafkaException(self._error)
