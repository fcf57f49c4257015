"""Records and the position of a program, written in one transaction.

A position is a record of the compacted positions topic: the input offsets up to which a program has processed. A
program that starts reads its position and continues from there. The broker then rejects all further writes of an
earlier program of its group.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quota.errors import BadRecord, ClusterError
from quota.kafka.clients import client_config, cluster_errors
from quota.kafka.producing import produce
from quota.kafka.reading import Skipped, read_topic
from quota.records import codec
from quota.settings import Settings
from quota.settings.connection import Connection

T = TypeVar("T")

_MIN_TIMEOUT_SECONDS = 30.0
_LATEST_POSITIONS = 1000

_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001


def read_positions(connection: Connection, topic: str, group: str, timeout_seconds: float) -> list[Message]:
    """Return the latest records with positions of a group, the oldest first; none if it has no position yet.

    The latest is among the topic's latest records unless another group is busy; then the whole topic is read.
    """
    for max_records in (_LATEST_POSITIONS, None):
        messages = read_topic(connection, topic, timeout_seconds, max_records)
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
        self.producer = Producer(client_config(self._connection, own))
        with self.errors("take over"):
            self.producer.init_transactions(max(self._timeout, _MIN_TIMEOUT_SECONDS))

    def position(self, decoder: msgspec.json.Decoder[T]) -> T | None:
        """Return the latest position of the group; an invalid record is skipped."""
        position, skipped = None, Skipped(f"a position of an {self._program}")
        for message in read_positions(self._connection, self._topic, self._group, self._timeout):
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
                    raise TakenOver(f"another {self._program} of the group {self._group} has taken over") from None
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
