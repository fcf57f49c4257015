"""The progress of an applier: the decisions that are done, and those that may have been started when it was killed."""

import logging
from collections.abc import Iterable
from typing import Self

import msgspec
from confluent_kafka import Message

from quota.errors import BadRecord
from quota.kafka.producers import PositionWriter
from quota.kafka.reading import TRANSACTION_SECONDS, Skipped, read_topic, topic_partitions
from quota.kafka.requests_and_answers import MAX_REQUESTS_PER_BATCH
from quota.kafka.topics.specs import ENVELOPE, MAX_ANSWER_BYTES
from quota.records import codec
from quota.records.result import MutationResult
from quota.settings import Settings

_log = logging.getLogger(__name__)

_BATCHES = 2
"""Both copies of a decision that was written twice are within two consecutive batches of the enforcing query."""

_OFFSETS_PER_RESULT = 2
"""Each transaction also ends with a marker, which occupies an offset of the results topic."""


class AppliedOffset(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position of an applier in one partition of the decisions.

    Decisions from `offset` up to, not including, `maybe_until` may have been started by an applier that was killed.
    """

    offset: int
    maybe_until: int
    deletions: dict[int, dict[str, str]] = {}
    """The ids of the topics that these decisions delete, by the decision's offset and the topic's name."""

    def advanced(self, offset: int) -> Self:
        """Return the position after a decision was processed."""
        left = {number: topics for number, topics in self.deletions.items() if number >= offset}
        return msgspec.structs.replace(self, offset=offset, deletions=left)


class _DoneDecision(msgspec.Struct, frozen=True):
    """The fields of a result by which its decision is recognized."""

    decision_id: str
    timestamp: int


_offsets_decoder = msgspec.json.Decoder(dict[int, AppliedOffset])
_done_decoder = msgspec.json.Decoder(_DoneDecision)


def read_offsets(message: Message) -> dict[int, AppliedOffset]:
    """Return the positions in an applier's record of the positions topic, by partition."""
    return codec.decode(message.value(), _offsets_decoder)


class Ledger(PositionWriter):
    """Results and applied offsets, written in one transaction.

    The applier that opened it last owns it: no other applier of the group can write, or start a batch, from then on.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._max_done = _BATCHES * _OFFSETS_PER_RESULT * MAX_REQUESTS_PER_BATCH
        self._done: dict[tuple[str, int], None] = {}
        self._offsets: dict[int, AppliedOffset] = {}
        largest = MAX_ANSWER_BYTES + ENVELOPE
        super().__init__(settings, "applier", settings.applier.group, largest, TRANSACTION_SECONDS)
        with self.errors("take over"):
            self._offsets = self.position(_offsets_decoder) or {}
            results = settings.topics.results
            self._max_done *= max(1, len(topic_partitions(self.producer, results, self._timeout)))
            skipped = Skipped("a result of an applier")
            for message in read_topic(self._connection, results, self._timeout, self._max_done, await_open=True):
                try:
                    done = codec.decode(message.value(), _done_decoder)
                except BadRecord as error:
                    skipped.add(message, error)
                else:
                    self.mark_done(done.decision_id, done.timestamp)

    def mark_done(self, decision_id: str, timestamp: int) -> bool:
        """Mark a decision as done; return whether it already was.

        The timestamp of its request [epoch ms] is part of its identity: a request topic that is created again starts
        with the same ids.
        """
        key = (decision_id, timestamp)
        was_done = key in self._done
        self._done[key] = None
        if len(self._done) > self._max_done:
            del self._done[next(iter(self._done))]
        return was_done

    def resume_at(self, partition: int, first: int, end: int) -> AppliedOffset:
        """Return the position from which to continue."""
        stored = self._offsets.get(partition)
        if stored is None:
            return AppliedOffset(first, first)
        if not first <= stored.offset <= end:
            lost = "decisions of partition %d from %d on were deleted: continuing at %d"
            _log.warning(lost, partition, stored.offset, first)
            return AppliedOffset(first, max(first, min(stored.maybe_until, end)))
        return msgspec.structs.replace(stored, maybe_until=min(stored.maybe_until, end))

    def commit(self, results: Iterable[tuple[bytes | None, MutationResult]] = ()) -> None:
        """Write the batch's results, each with its record key, and its offsets."""
        with self.errors("write"):
            for key, result in results:
                self.produce(self._settings.topics.results, self._encoded(result), key)
        super().commit()

    def _encoded(self, result: MutationResult) -> bytes:
        """Return a result that fits into its topic: if it is too large, without error messages or without topics."""
        short = [msgspec.structs.replace(topic, error_message=None) for topic in result.topics]
        for topics in (result.topics, short):
            encoded = codec.encode(msgspec.structs.replace(result, topics=topics))
            if len(encoded) <= MAX_ANSWER_BYTES:
                return encoded
        _log.error(
            "%s: its result is larger than a record of the topic may be, and is written without its topics",
            result.source,
        )
        return codec.encode(msgspec.structs.replace(result, topics=[]))
