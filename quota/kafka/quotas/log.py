"""A reader of the quota log, which follows its end; each Python worker has one."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, Message, TopicPartition

from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord, ClusterError
from quota.kafka.brokers.replica_ends import Ends, ReplicaEnds
from quota.kafka.librdkafka import KeptClient, cluster_errors, retry
from quota.kafka.reading import Skipped, in_sync_replicas, make_consumer, message_source, topic_partitions
from quota.kafka.timing import Deadline, Every, now_ms
from quota.kafka.topics.specs import QUOTAS_RETAINED_MS
from quota.records.quota_log import Callbacks, QuotaLogEntry, read_quota_log_record
from quota.records.record import Record
from quota.settings import Settings
from quota.settings.connection import Connection
from quota.text import format_time
from quota.timeline.change import CallbackCancellation, QuotaCancellation, to_change
from quota.timeline.timeline import QuotaTimeline

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_LOOK_SECONDS = 60.0
"""How often a topic with single replicas is checked for added ones [s]."""

_OPEN_SECONDS = 2.0
"""How long the end of a transaction is awaited that hides changes [s]; most take some ms."""
_FORGET_SECONDS = 24 * 3600.0
"""How often replaced quotas are forgotten that the topic need not have any longer, either [s]."""


@dataclass(frozen=True, slots=True)
class KafkaQuotas:
    """The quotas of a quota topic; small when pickled."""

    connection: Connection
    topic: str
    timeout_seconds: float
    callbacks: Callbacks

    @classmethod
    def from_settings(cls, settings: Settings, timeout_seconds: float) -> Self:
        """Return the quotas of the topic in the settings."""
        topics, callbacks = settings.topics, settings.quota.callbacks
        return cls(settings.kafka.connection, topics.quotas, timeout_seconds, callbacks)

    def read_until(self, until: int) -> CallbackTimeline:
        """Return the quotas with all changes stamped up to `until` (epoch ms).

        Reads the log to its current end, and waits for changes that are not fully replicated yet.
        """
        # A change in the same millisecond applies to a request, so the end is read after that millisecond is over.
        wait_ms = until + 1 - time.time() * 1000
        if 0 < wait_ms <= 1:
            time.sleep(wait_ms / 1000)
        log = _cached_log(self)
        log.read_to_end()
        log.decided_until = max(log.decided_until, until)
        return log.quotas


def read_log(settings: Settings, *, with_entries: bool = False) -> "QuotaLog":
    """Return the quota log of a deployment, read to its end."""
    quotas = KafkaQuotas.from_settings(settings, settings.kafka.timeout_seconds)
    log = QuotaLog(quotas, with_entries=with_entries)
    log.read_to_end()
    return log


@lru_cache
def _cached_log(quotas: KafkaQuotas) -> "QuotaLog":
    return QuotaLog(quotas, ask_replicas=True)


class QuotaLog:
    """A consumer of the quota topic, and the quotas that it has read."""

    def __init__(self, quotas: KafkaQuotas, *, with_entries: bool = False, ask_replicas: bool = False) -> None:
        """Open the log at its beginning; `with_entries` retains the records in `entries`.

        With `ask_replicas`, it is read up to the log end offset of the longest replica instead of the high watermark:
        the records in between already have timestamps, but can be read only once they are replicated.
        """
        self.quotas = CallbackTimeline(quotas.callbacks)
        self.entries: list[QuotaLogEntry] = []
        self.decided_until = -1
        """The latest timestamp of the requests that were decided [epoch ms]; a change with an earlier one is late."""
        self._with_entries = with_entries
        self._skipped = Skipped("a valid quota record")
        self._last_timestamp = 0
        self._topic = quotas.topic
        self._name = f"topic {quotas.topic} at {quotas.connection}"
        self._timeout = quotas.timeout_seconds
        self._connection = quotas.connection
        own: dict[str, str | float] = {
            "enable.partition.eof": False,
            "fetch.wait.max.ms": 10,
        }
        self._kept = KeptClient(lambda: make_consumer(quotas.connection, "mutation-quota-log", own))
        self._replicas = _replica_ends(quotas.connection, quotas.topic) if ask_replicas else None
        self._look = Every(_LOOK_SECONDS)
        self._forget = Every(_FORGET_SECONDS, at_once=False)
        self._replicated = False
        self._positions = dict.fromkeys(self._partitions(), 0)
        self._first = dict.fromkeys(self._positions, 0)
        self._open: dict[int, tuple[int, Deadline]] = {}
        """By partition, the first offset of an open transaction, and how long its end is awaited."""

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
        if self._replicas is not None:
            self._replicas.close()

    def take_entries(self) -> list[QuotaLogEntry]:
        """Return the records of `entries`, and clear it."""
        taken, self.entries = self.entries, []
        return taken

    @property
    def timeline(self) -> QuotaTimeline:
        """The quotas in the log, without the callback."""
        return self.quotas.timeline

    @property
    def _consumer(self) -> Consumer:
        return self._kept.client

    @property
    def now(self) -> int:
        """The current time [epoch ms], but not before the last change: the broker's clock may be ahead of ours.

        An earlier change with a later timestamp shows that this clock was ahead, and has been corrected.
        """
        return max(self._last_timestamp, now_ms())

    @property
    def position(self) -> int:
        """The sum of the next offsets of all partitions; it increases when something new was read."""
        return sum(self._positions.values())

    def read_to_end(self) -> None:
        """Read everything up to the topic's current end.

        Retries while the leader moves or a broker restarts, for as long as the timeout from the first failure on. What
        a week ago was replaced already is forgotten: of earlier times, a reader that starts may not know it either.
        """
        deadline = None
        with cluster_errors(f"read the quotas in {self._name}", self._connection):
            while True:
                try:
                    with self._kept.reporting():
                        self._read_new_records()
                except KafkaException:
                    deadline = deadline or Deadline(self._timeout)
                    if deadline.has_passed:
                        raise
                    time.sleep(_POLL_SECONDS)
                else:
                    break
        if self._forget.is_due():
            asked_at = now_ms() if self.decided_until < 0 else min(now_ms(), self.decided_until)
            self.quotas.forget(asked_at - QUOTAS_RETAINED_MS)

    def _partitions(self) -> list[int]:
        """Return the topic's partitions, which a broker that restarts may not know yet."""
        with cluster_errors(f"read the quotas in {self._name}", self._connection):
            return retry(lambda: topic_partitions(self._consumer, self._topic, self._timeout), Deadline(self._timeout))

    def _read_new_records(self) -> None:
        ends = self._ends().offsets
        if any(self._positions[partition] > end for partition, end in ends.items()):
            raise ClusterError(f"{self._name} was deleted and created again; restart the job")
        unread = self._unread(ends)
        if unread:
            # Assigned only while there is something to read: a pending fetch would delay the next watermark request.
            self._consumer.assign([TopicPartition(self._topic, number, self._positions[number]) for number in unread])
            try:
                self._read_up_to(unread)
            finally:
                self._consumer.unassign()

    def _ends(self) -> Ends:
        """Return the current end offsets, from the leaders and, for `read_until`, from all in-sync replicas.

        A leader returns the last stable offset to these consumers. The last records of a replicated topic can have
        offsets above it: they already have timestamps, but can be read only once the other in-sync replicas have them.
        What an open transaction holds back, below the high watermark of the last fetch, is awaited for seconds only: it
        may stay open for a quarter of an hour, and a single writer would stop all decisions.
        """
        offsets, held = {}, set()
        for number in self._positions:
            partition = TopicPartition(self._topic, number)
            first, offsets[number] = self._consumer.get_watermark_offsets(partition, timeout=self._timeout)
            self._pass_deleted(number, first)
            at, awaited = self._open.get(number, (-1, Deadline(0)))
            if offsets[number] >= self._consumer.get_watermark_offsets(partition, cached=True)[1]:
                self._open.pop(number, None)
            elif at != offsets[number]:
                self._open[number] = offsets[number], Deadline(_OPEN_SECONDS)
            elif awaited.has_passed:
                held.add(number)
        if self._replicas is None or not (self._replicated or self._look.is_due()):
            return Ends(offsets, complete=True)
        in_sync = in_sync_replicas(self._consumer, self._topic, self._timeout)
        self._replicated = bool(in_sync)
        if not in_sync:
            return Ends(offsets, complete=True)
        ends = self._replicas.fetch(in_sync)
        appended = {number: end for number, end in ends.offsets.items() if number not in held}
        return Ends(
            {number: max(end, appended.get(number, end)) for number, end in offsets.items()},
            complete=ends.complete or bool(held),
        )

    def _pass_deleted(self, number: int, first: int) -> None:
        """Continue at the first record that a partition still has; the compaction of records does not change it."""
        if first > self._first[number]:
            self._first[number] = first
            _log.warning(
                "the records of %s before offset %d were deleted, and not by compaction: quotas that only they set are "
                "lost, at the next start at the latest; set cleanup.policy=compact on the topic, and set the quotas "
                "again that quotas describe does not list",
                self._name,
                first,
            )
        self._positions[number] = max(self._positions[number], first)

    def _unread(self, ends: Mapping[int, int]) -> dict[int, int]:
        return {partition: end for partition, end in ends.items() if self._positions[partition] < end}

    def _read_up_to(self, ends: dict[int, int]) -> None:
        deadline = Deadline(self._timeout)
        while unread := self._unread(ends):
            message = self._consumer.poll(_POLL_SECONDS)
            if message is not None:
                self._add(message)
                deadline = Deadline(self._timeout)
                continue
            self._skip_missing_offsets(unread)
            if deadline.has_passed:
                raise ClusterError(
                    f"no records of {self._name} arrived for {self._timeout:.0f} s, although its log has more; "
                    "check the brokers of its replicas"
                )
            ends = self._ends().without_lost(ends)

    def _add(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        source = message_source(message)
        self._positions[source.partition] = source.offset + 1
        kind, timestamp = message.timestamp()
        stamped = kind == TIMESTAMP_LOG_APPEND_TIME
        try:
            record = read_quota_log_record(message.value(), message.key())
            Record(source, timestamp, message.value(), message.key(), stamped).check_stamped()
        except BadRecord as bad:
            self._skipped.add(message, bad)
            return
        self._last_timestamp = timestamp
        if timestamp <= self.decided_until:
            # A leader stamps a change before the replicas have it, and shows it afterwards.
            _log.warning(
                "the quota change %s is stamped %s, but could be read only after requests up to %s were "
                "decided with the previous quotas; check the replicas of the topic and the clocks of the brokers",
                source,
                format_time(timestamp),
                format_time(self.decided_until),
            )
        change = to_change(record, timestamp)
        if isinstance(change, QuotaCancellation | CallbackCancellation) and change.late:
            _log.warning(
                "%s cancels the change of %s after that time, so it has no effect", source, format_time(change.moment)
            )
        self.quotas.add(change)
        if self._with_entries:
            self.entries.append(QuotaLogEntry(source.offset, timestamp, record))

    def _skip_missing_offsets(self, ends: Mapping[int, int]) -> None:
        """Move past offsets without a record: it was compacted, or it is a transaction marker."""
        partitions = [TopicPartition(self._topic, partition) for partition in ends]
        for position in self._consumer.position(partitions):
            self._positions[position.partition] = max(self._positions[position.partition], position.offset)


def _replica_ends(connection: Connection, topic: str) -> ReplicaEnds | None:
    if connection.security.is_complete:
        return ReplicaEnds(connection, topic)
    _log.warning(
        "requests do not wait for quota changes that are not fully replicated (topic %s): "
        "[kafka.librdkafka] has properties "
        "of TLS or SASL, which the check of the replicas cannot use; set TLS and SASL in [kafka]",
        topic,
    )
    return None
