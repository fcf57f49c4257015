"""Where an applier stands: which decisions are done, and which may have been begun when it was killed."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quota.errors import BadRecord, ClusterError
from quota.kafka.clients import client_config, partitions_of, reason, source_of
from quota.kafka.stored import read_topic
from quota.kafka.topics.record_sizes import ENVELOPE
from quota.kafka.topics.specs import max_answer_bytes
from quota.records import codec
from quota.records.result import MutationResult
from quota.settings.model import Settings

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BATCHES = 2
"""Both copies of a decision that was written twice are among those of two batches of the enforcing query."""

_MARKERS = 2
"""A results topic has an offset for the end of each transaction, too."""

_TRANSACTION_SECONDS = 900.0
_TAKE_OVER_SECONDS = 30.0
_PLACES_READ = 1000


class TakenOver(ClusterError):
    """Another applier of the group was started, and works in this one's place."""


class AppliedOffset(msgspec.Struct, frozen=True):
    """How far an applier has come in one partition of the decisions.

    Those from `offset` on, but before `maybe_until`, may have been begun by an applier that was killed.
    """

    offset: int
    maybe_until: int


class _Known(msgspec.Struct, frozen=True):
    decision_id: str
    timestamp: int


_places_decoder = msgspec.json.Decoder(dict[int, AppliedOffset])
_known_decoder = msgspec.json.Decoder(_Known)


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
        self._topics = settings.topics
        self._cluster, self._name = settings.kafka.connection, settings.apply.group
        self._timeout = settings.kafka.timeout_seconds
        self._most = _BATCHES * _MARKERS * settings.enforce.max_requests_per_batch
        self._done: dict[tuple[str, int], None] = {}
        self._begun: dict[int, AppliedOffset] = {}
        self._places: dict[int, AppliedOffset] = {}
        producer: dict[str, str | float] = {
            "transactional.id": self._name,
            "transaction.timeout.ms": int(_TRANSACTION_SECONDS * 1000),
            "message.max.bytes": max_answer_bytes(settings) + ENVELOPE,
            "linger.ms": 0,
        }
        self._producer = Producer(client_config(self._cluster, producer))
        with self._told():
            self._producer.init_transactions(max(self._timeout, _TAKE_OVER_SECONDS))
            self._read_places()
            self._most *= max(1, len(partitions_of(self._producer, self._topics.results, self._timeout)))
            for message in self._stored(self._topics.results, self._most):
                self._remember(message)

    def knows(self, decision_id: str, timestamp: int) -> bool:
        """Whether a decision is done; counts it as done from now on.

        Its request's timestamp belongs to it: a request topic that was made anew begins with the same ids.
        """
        key = (decision_id, timestamp)
        known = key in self._done
        self._done[key] = None
        if len(self._done) > self._most:
            del self._done[next(iter(self._done))]
        return known

    def hold(self) -> None:
        """Make sure, by asking the broker, that no other applier has taken over since `begin`.

        Raises:
            ClusterError: one has, or the cluster does not answer.
        """
        with self._told():
            self._write_places()
            self._flush()

    def place(self, partition: int, first: int, end: int) -> AppliedOffset:
        """Where to go on in a partition of the decisions that has those from `first` to before `end`."""
        known = self._places.get(partition)
        if known is None:
            # A partition that is new to a group that is at work was added since: all of it is to be done.
            start = first if self._places or self._settings.apply.auto_offset_reset == "earliest" else end
            return AppliedOffset(start, start)
        if not first <= known.offset <= end:
            lost = "decisions of partition %d from %d on are not there any more: going on at %d"
            _log.warning(lost, partition, known.offset, first)
            return AppliedOffset(first, max(first, min(known.maybe_until, end)))
        return AppliedOffset(known.offset, min(known.maybe_until, end))

    def begin(self, places: Mapping[int, AppliedOffset]) -> None:
        """Begin what ends with `commit`; how far it will have come then is said now.

        Whether another applier has taken over is known by the next `hold` or `commit`, which wait for the broker.

        Raises:
            ClusterError: the cluster does not answer.
        """
        with self._told():
            self._producer.begin_transaction()
            self._begun = dict(places)
            self._write_places()

    def commit(self, results: Iterable[tuple[bytes | None, MutationResult]] = ()) -> None:
        """Write results, each under its record key, and the places.

        Raises:
            ClusterError: another applier has taken over, or the cluster does not answer.
        """
        with self._told():
            for key, result in results:
                self._producer.produce(self._topics.results, self._encoded(result), key)
            self._flush()
            self._producer.commit_transaction(max(self._timeout, _TAKE_OVER_SECONDS))

    def abort(self) -> None:
        """Write nothing of what was begun.

        Raises:
            ClusterError: another applier has taken over, or the cluster does not answer.
        """
        with self._told():
            self._producer.abort_transaction(self._timeout)

    def _write_places(self) -> None:
        self._producer.produce(self._topics.places, codec.encode(self._begun), self._name.encode())

    def _flush(self) -> None:
        """Have the broker take what was produced, which fails for whoever is not the latest.

        It is quicker, too, than to leave it to the commit. (No callback of ours here: confluent-kafka raises what is
        fatal from within it, and would call the callback with the error already set.)
        """
        if self._producer.flush(max(self._timeout, _TAKE_OVER_SECONDS)):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "it does not take records"))  # noqa: SLF001

    def _encoded(self, result: MutationResult) -> bytes:
        """A result that its topic takes: thousands of bad topics have more to be said of them than fits."""
        short = [msgspec.structs.replace(topic, error_message=None) for topic in result.topics]
        for topics in (result.topics, short):
            encoded = codec.encode(msgspec.structs.replace(result, topics=topics))
            if len(encoded) <= max_answer_bytes(self._settings):
                return encoded
        _log.error("%s: its result is larger than limits.max_request_bytes foresees, and is left out", result.source)
        return codec.encode(msgspec.structs.replace(result, topics=[]))

    def _read_places(self) -> None:
        """Read the latest places of the group; they are among the last ones, if no other group is busy."""
        for most in (_PLACES_READ, None):
            for message in self._stored(self._topics.places, most):
                if message.key() == self._name.encode():
                    self._places = self._decoded(message, _places_decoder) or self._places
            if self._places:
                return

    def _remember(self, message: Message) -> None:
        """A decision that is written twice is not done twice."""
        known = self._decoded(message, _known_decoder)
        if known is not None:
            self.knows(known.decision_id, known.timestamp)

    @staticmethod
    def _decoded(message: Message, decoder: msgspec.json.Decoder[T]) -> T | None:
        try:
            return codec.decode(message.value(), decoder)
        except BadRecord as error:
            _log.warning("%s is no record of an applier and is passed over: %s", source_of(message), error)
            return None

    def _stored(self, topic: str, most: int | None) -> Iterator[Message]:
        return read_topic(self._cluster, topic, self._timeout, most)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in our words what can go wrong with a transaction."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}:  # noqa: SLF001
                raise TakenOver(f"another applier of the group {self._name} has taken over") from None
            raise ClusterError(f"applier {self._name} at {self._cluster}: {reason(error)}") from None
