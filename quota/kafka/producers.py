"""Producers: one that waits while its queue is full, and one that writes records and a position in one transaction.

A position is a record of the compacted positions topic: the input offsets up to which a program has processed. A
program that starts reads its position and continues from there. The broker then rejects all further writes of an
earlier program of its group.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quota.errors import BadRecord, ClusterError
from quota.kafka.librdkafka import client_config, cluster_errors
from quota.kafka.reading import Skipped, read_topic
from quota.kafka.timing import Deadline
from quota.records import codec
from quota.settings import Settings
from quota.settings.connection import Connection

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BY_KEY = -1
"""The partition of a record whose key determines it (librdkafka's `RD_KAFKA_PARTITION_UA`)."""
_QUEUE_FULL_SECONDS = 0.1
_FLUSH_SECONDS = 0.1
"""The time of one call of librdkafka, during which Python handles no signal."""
_MIN_TIMEOUT_SECONDS = 30.0
_LEAST_TRANSACTION_MS = 5000
_WITHIN_TRANSACTION = ("message.timeout.ms", "delivery.timeout.ms", "socket.timeout.ms")
"""Properties that the settings may set for all clients; of a producer with transactions librdkafka accepts only values
up to the transaction's own limit."""
_LATEST_POSITIONS = 1000

_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001


def produce(  # noqa: PLR0913, PLR0917 as `Producer.produce`
    producer: Producer,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    partition: int = _BY_KEY,
) -> None:
    """Enqueue a record, waiting while the queue is full; without a partition, its key determines that."""
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery=on_delivery)
        except BufferError:
            producer.poll(_QUEUE_FULL_SECONDS)
        else:
            return


def write_each(
    producer: Producer, topic: str, records: Iterable[tuple[bytes, bytes | None, int]], seconds: float
) -> KafkaError | None:
    """Write values with their keys to partitions, each also if another fails; return the first error.

    None if all are acknowledged.
    """
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    for value, key, partition in records:
        try:
            produce(producer, topic, value, key, on_delivery, partition)
        except KafkaException as error:
            errors.append(error.args[0])
    if producer.flush(seconds):
        errors.append(_unanswered(seconds))
    return next(iter(errors), None)


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
            raise KafkaException(_unanswered(seconds))

    def _raise_error(self) -> None:
        if self._error is not None:
            raise KafkaException(self._error)


def _unanswered(seconds: float) -> KafkaError:
    return KafkaError(KafkaError._TIMED_OUT, f"no answer in {seconds:.0f} s")  # noqa: SLF001


def read_positions(
    connection: Connection, topic: str, group: str, timeout_seconds: float, *, await_open: bool = False
) -> list[Message]:
    """Return the latest records with positions of a group, the oldest first; none if it has no position yet.

    The latest is among the topic's latest records unless another group is busy; then the whole topic is read. With
    `await_open`, none is missing because another group has a transaction open.
    """
    for max_records in (_LATEST_POSITIONS, None):
        messages = read_topic(connection, topic, timeout_seconds, max_records, await_open=await_open)
        positions = [message for message in messages if message.key() == group.encode()]
        if positions:
            return positions
    return []


class TakenOver(ClusterError):
    """Another program of the group was started and has fenced this one."""


class PositionWriter:
    """A producer of records and positions.

    The program that opened it last owns the group: no other program of the group can write, or begin a transaction,
    from then on.
    """

    def __init__(
        self, settings: Settings, program: str, group: str, max_bytes: int, transaction_seconds: float
    ) -> None:
        """Take over from the previous program of the group.

        A transaction that is open for longer than `transaction_seconds` is aborted by the broker; until then readers
        (read_committed) wait, for example if the program has died.
        """
        self._connection, self._topic = settings.kafka.connection, settings.topics.positions
        self._timeout = settings.kafka.timeout_seconds
        self._program, self._group = program, group
        self._position = b""
        own: dict[str, str | float] = {
            "transactional.id": group,
            "transaction.timeout.ms": int(transaction_seconds * 1000),
            "message.max.bytes": max_bytes,
            "linger.ms": 0,
        }
        with self.errors("take over"):
            self.producer = self._take_over(client_config(self._connection, own))

    def _take_over(self, config: dict[str, Any]) -> Producer:
        """Return a producer that owns the group, whose transactions are as long as asked or as the brokers allow."""
        longest_ms = config["transaction.timeout.ms"]
        own = {name: min(int(config[name]), longest_ms) for name in _WITHIN_TRANSACTION if name in config}
        producer = Producer(config | own)
        try:
            producer.init_transactions(max(self._timeout, _MIN_TIMEOUT_SECONDS))
        except KafkaException as error:
            shorter_ms = longest_ms // 2
            if error.args[0].code() != KafkaError.INVALID_TRANSACTION_TIMEOUT or shorter_ms < _LEAST_TRANSACTION_MS:
                raise
            _log.warning(
                "the brokers do not allow transactions of %d s (transaction.max.timeout.ms), trying %d s: they abort "
                "one that takes longer, and the %s ends",
                longest_ms // 1000,
                shorter_ms // 1000,
                self._program,
            )
            return self._take_over(config | {"transaction.timeout.ms": shorter_ms})
        return producer

    def position(self, decoder: msgspec.json.Decoder[T]) -> T | None:
        """Return the latest position of the group; an invalid record is skipped."""
        position, skipped = None, Skipped(f"a position of an {self._program}")
        messages = read_positions(self._connection, self._topic, self._group, self._timeout, await_open=True)
        for message in messages:
            try:
                position = codec.decode(message.value(), decoder)
            except BadRecord as error:
                skipped.add(message, error)
        return position

    def begin(self, position: object) -> None:
        """Begin a transaction, with the position that applies once it is committed.

        The next `check_not_fenced` or `commit` waits for the broker and reports whether another program took over.
        """
        with self.errors("begin a transaction"):
            self.producer.begin_transaction()
            self._position = codec.encode(position)
            self._produce_position()

    def check_not_fenced(self) -> None:
        """Check with the broker that no other program has taken over since `begin`."""
        with self.errors("write"):
            self._produce_position()
            self._flush()

    def produce(self, topic: str, value: bytes, key: bytes | None) -> None:
        """Add a record to the transaction."""
        produce(self.producer, topic, value, key)

    def commit(self) -> None:
        """End the transaction: its records and its position appear together."""
        with self.errors("write"):
            self._flush()
            self.producer.commit_transaction(max(self._timeout, _MIN_TIMEOUT_SECONDS))

    def abort(self) -> None:
        """Discard the transaction."""
        with self.errors("abort a transaction"):
            self.producer.abort_transaction(self._timeout)

    @contextmanager
    def errors(self, action: str) -> Iterator[None]:
        """Turn Kafka's errors into ClusterErrors."""
        with cluster_errors(f"{action} as {self._program} {self._group} at {self._connection}", self._connection):
            try:
                yield
            except KafkaException as error:
                if error.args[0].code() in _FENCED:
                    raise TakenOver(
                        f"another {self._program} of the group {self._group} has taken over, or a transaction took "
                        "longer than the brokers allow"
                    ) from None
                raise

    def _produce_position(self) -> None:
        self.produce(self._topic, self._position, self._group.encode())

    def _flush(self) -> None:
        """Wait until the broker has the records, which fails if this program is fenced.

        This is also faster than leaving it to the commit. There is no delivery callback: confluent-kafka raises fatal
        errors from within the call, and would call the callback with the error already set.
        """
        if self.producer.flush(max(self._timeout, _MIN_TIMEOUT_SECONDS)):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the cluster does not accept records in time"))  # noqa: SLF001
