"""Where an applier stands: which decisions are done, and which may have been begun when it was killed."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from quota import codec
from quota.errors import ClusterError
from quota.kafka.client import client_config, reason, tail, take
from quota.result import MutationResult
from quota.settings import Settings

_log = logging.getLogger(__name__)

_BATCHES = 2
"""Both copies of a decision that was written twice are among those of two batches of the enforcing query."""

_TRANSACTION_SECONDS = 900.0
_TAKE_OVER_SECONDS = 30.0
_READ_SECONDS = 1.0
_MANY = 10_000


class Place(msgspec.Struct, frozen=True):
    """How far an applier has come in one partition of the decisions.

    Those from `offset` on, but before `maybe_until`, may have been begun by an applier that was killed.
    """

    offset: int
    maybe_until: int


class _Beside(msgspec.Struct, frozen=True):
    """What Kafka keeps beside a committed offset."""

    maybe_until: int


class _Known(msgspec.Struct, frozen=True):
    decision_id: str


class Ledger:
    """Results and places, written together or not at all.

    Whoever opens it last has it: from then on nobody else of the group can write, nor begin anything.
    """

    def __init__(self, settings: Settings) -> None:
        """Take it over.

        Raises:
            ClusterError: the cluster does not answer in time.
        """
        self._settings = settings
        self._servers, self._name = settings.kafka.bootstrap_servers, settings.apply.group
        self._timeout = settings.kafka.timeout_seconds
        self._most = _BATCHES * settings.enforce.max_requests_per_batch
        self._done: dict[str, None] = {}
        producer: dict[str, str | float] = {
            "transactional.id": self._name,
            "transaction.timeout.ms": int(_TRANSACTION_SECONDS * 1000),
            "message.max.bytes": 2 * settings.limits.max_request_bytes,
            "linger.ms": 0,
        }
        self._producer = Producer(client_config(self._servers, producer))
        self._group = tail(self._servers, self._name)
        with self._told():
            self._producer.init_transactions(max(self._timeout, _TAKE_OVER_SECONDS))
            self._remember()

    def knows(self, decision_id: str) -> bool:
        """Whether a decision is done; counts it as done from now on."""
        known = decision_id in self._done
        self._done[decision_id] = None
        if len(self._done) > self._most:
            del self._done[next(iter(self._done))]
        return known

    def places(self, partitions: Iterable[int]) -> dict[int, Place]:
        """Where to go on in each partition of the decisions.

        Raises:
            ClusterError: the cluster does not answer in time.
        """
        wanted = [TopicPartition(self._settings.topics.decisions, partition) for partition in partitions]
        with self._told():
            return {
                each.partition: self._place(each, *self._group.get_watermark_offsets(each, self._timeout))
                for each in self._group.committed(wanted, self._timeout)
            }

    def begin(self, places: Mapping[int, Place]) -> None:
        """Begin what ends with `commit`; how far it will have come is said now.

        Raises:
            ClusterError: another applier has taken over, or the cluster does not answer.
        """
        topic = self._settings.topics.decisions
        offsets = [
            TopicPartition(topic, partition, place.offset, metadata=codec.encode(_Beside(place.maybe_until)).decode())
            for partition, place in places.items()
        ]
        with self._told():
            self._producer.begin_transaction()
            self._producer.send_offsets_to_transaction(offsets, self._group.consumer_group_metadata(), self._timeout)

    def commit(self, results: Iterable[tuple[bytes | None, MutationResult]] = ()) -> None:
        """Write results, each under its record key, and the places.

        Raises:
            ClusterError: another applier has taken over, or the cluster does not answer.
        """
        with self._told():
            for key, result in results:
                self._producer.produce(self._settings.topics.results, codec.encode(result), key)
            self._producer.flush(self._timeout)  # quicker than to leave it to the commit
            self._producer.commit_transaction(max(self._timeout, _TAKE_OVER_SECONDS))

    def abort(self) -> None:
        """Write nothing of what was begun.

        Raises:
            ClusterError: another applier has taken over, or the cluster does not answer.
        """
        with self._told():
            self._producer.abort_transaction(self._timeout)

    def close(self) -> None:
        """Let go of the connections."""
        self._group.close()

    def _place(self, committed: TopicPartition, first: int, end: int) -> Place:
        if committed.offset < 0:
            start = first if self._settings.apply.auto_offset_reset == "earliest" else end
            return Place(start, start)
        if not first <= committed.offset <= end:
            _log.warning(
                "decisions of partition %d from %d on are not there any more: going on at %d",
                committed.partition,
                committed.offset,
                first,
            )
            return Place(first, first)
        try:
            beside = msgspec.json.decode(committed.metadata or "", type=_Beside)
        except msgspec.DecodeError:  # someone has reset the group by hand
            return Place(committed.offset, committed.offset)
        return Place(committed.offset, min(beside.maybe_until, end))

    def _remember(self) -> None:
        """Read the latest results: a decision that was written twice is not done twice."""
        consumer = tail(self._servers, self._name)
        try:
            topic = self._settings.topics.results
            found = consumer.list_topics(topic, self._timeout).topics[topic]
            starts = []
            for partition in found.partitions:
                each = TopicPartition(topic, partition)
                first, end = consumer.get_watermark_offsets(each, self._timeout)
                starts.append(TopicPartition(topic, partition, max(first, end - 2 * self._most)))
            consumer.assign(starts)
            reading = {each.partition for each in starts}
            while reading:
                for message in take(consumer, _MANY, _READ_SECONDS):
                    error = message.error()
                    if error is None:
                        self.knows(msgspec.json.decode(message.value() or b"", type=_Known).decision_id)
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                        reading.discard(message.partition())
        finally:
            consumer.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in our words what can go wrong with a transaction."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}:  # noqa: SLF001
                raise ClusterError(f"another applier of the group {self._name} has taken over") from None
            raise ClusterError(f"applier {self._name} at {self._servers}: {reason(error)}") from None
