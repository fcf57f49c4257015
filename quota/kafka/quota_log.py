"""The quota topic as quotas in time that read on: each Python worker keeps one."""

import logging
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, Message, TopicPartition

from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord, ClusterError
from quota.kafka.clients import client_config, partitions_of, reason, unreachable
from quota.records.callback import Callbacks
from quota.records.quota_log import LogEntry, read_log_record
from quota.records.record import check_stamped
from quota.settings.connection import Connection
from quota.settings.model import Settings
from quota.timeline.change import change_of
from quota.timeline.timeline import QuotaTimeline

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class KafkaQuotas:
    """The quotas of a quota topic."""

    connection: Connection
    topic: str
    timeout_seconds: float
    callbacks: Callbacks
    trust_producer_timestamps: bool = False

    @classmethod
    def of(cls, settings: Settings, timeout_seconds: float) -> Self:
        """The quota topic of the settings."""
        topics, callbacks = settings.topics, settings.quota.callbacks
        trusting = topics.trust_producer_timestamps
        return cls(settings.kafka.connection, topics.quotas, timeout_seconds, callbacks, trusting)

    def known(self, until: int) -> CallbackTimeline:
        """All changes stamped up to `until` (epoch ms): the log is read on to its present end.

        Raises:
            ClusterError: the topic cannot be read in time.
        """
        # A change of the same millisecond holds for a request: let that millisecond pass before the end is asked for.
        wait_ms = until + 1 - time.time() * 1000
        if 0 < wait_ms <= 1:
            time.sleep(wait_ms / 1000)
        log = _log_of(self)
        log.read_on()
        return log.quotas


def read_log(settings: Settings, *, keep: bool = False) -> "QuotaLog":
    """The quota log of a deployment, read to its end; with its records, if they are to be kept.

    Raises:
        ClusterError: the topic cannot be read.
    """
    log = QuotaLog(KafkaQuotas.of(settings, settings.kafka.timeout_seconds), keep=keep)
    log.read_on()
    return log


@lru_cache
def _log_of(quotas: KafkaQuotas) -> "QuotaLog":
    return QuotaLog(quotas)


class QuotaLog:
    """A consumer at the end of the quota topic, and the quotas that it has read."""

    def __init__(self, quotas: KafkaQuotas, *, keep: bool = False) -> None:
        """Open the log at its beginning.

        Args:
            quotas: the topic.
            keep: whether the records are wanted too, in `entries`.

        Raises:
            ClusterError: the topic cannot be found in time.
        """
        self.quotas = CallbackTimeline(quotas.callbacks)
        self.entries: list[LogEntry] = []
        self._newest = 0
        self._keep = keep
        self._trusting = quotas.trust_producer_timestamps
        self._connection = quotas.connection
        self._topic = quotas.topic
        self._where = f"topic {quotas.topic} at {quotas.connection}"
        self._timeout = quotas.timeout_seconds
        self._consumer = Consumer(
            client_config(
                quotas.connection,
                {
                    "group.id": "mutation-quota-log",  # asked for, though nothing is ever committed
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "fetch.wait.max.ms": 10,
                },
            )
        )
        self._positions = dict.fromkeys(self._partitions(), 0)

    @property
    def timeline(self) -> QuotaTimeline:
        """The quotas that are set, whatever the callback makes of them."""
        return self.quotas.timeline

    @property
    def now(self) -> int:
        """The present, epoch ms; not before the newest change, which a broker with a clock ahead of ours may stamp."""
        return max(self._newest, time.time_ns() // 1_000_000)

    def _partitions(self) -> list[int]:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return partitions_of(self._consumer, self._topic, self._timeout)
            except KafkaException as error:  # a broker that starts again may not know its topics yet
                if time.monotonic() > deadline:
                    why = unreachable(client_config(self._connection), error)
                    raise ClusterError(f"cannot read the quotas in {self._where}: {why}") from None
                time.sleep(_POLL_SECONDS)

    def read_on(self) -> None:
        """Read everything up to the topic's present end.

        Raises:
            ClusterError: the topic cannot be read, or gives nothing for too long before its end.
        """
        failing_since = None
        while True:
            try:
                self._read_to_end()
            except KafkaException as error:  # a leader that moves, or a broker that starts again
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > self._timeout:
                    raise ClusterError(f"cannot read the quotas in {self._where}: {reason(error)}") from None
                time.sleep(_POLL_SECONDS)
            else:
                return

    def _read_to_end(self) -> None:
        ends = {
            partition: self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=self._timeout
            )[1]
            for partition in self._positions
        }
        if any(self._positions[partition] > end for partition, end in ends.items()):
            raise ClusterError(f"{self._where} is not the one that was read so far; start the job again")
        behind = {partition: end for partition, end in ends.items() if self._positions[partition] < end}
        if behind:
            # Only while there is something to read: a fetch that waits has the next look at the end wait, too.
            places = [TopicPartition(self._topic, partition, self._positions[partition]) for partition in behind]
            self._consumer.assign(places)
            try:
                self._read_up_to(behind)
            finally:
                self._consumer.unassign()

    def _read_up_to(self, ends: dict[int, int]) -> None:
        deadline = time.monotonic() + self._timeout
        while any(self._positions[partition] < end for partition, end in ends.items()):
            message = self._consumer.poll(_POLL_SECONDS)
            if message is not None:
                self._take(message)
                deadline = time.monotonic() + self._timeout
            else:
                self._skip_what_is_gone(ends)
            if time.monotonic() > deadline:
                raise ClusterError(f"{self._where} gave nothing for {self._timeout:.0f} s before its end")

    def _take(self, message: Message) -> None:
        if message.error() is not None:
            raise KafkaException(message.error())
        partition, offset = message.partition() or 0, message.offset() or 0
        self._positions[partition] = offset + 1
        try:
            record = read_log_record(message.value(), message.key())
            kind, timestamp = message.timestamp()
            check_stamped(by_broker=self._trusting or kind == TIMESTAMP_LOG_APPEND_TIME)
        except BadRecord as error:
            _log.warning("skipped a quota that is none (%s-%d-%d): %s", self._topic, partition, offset, error)
            return
        self._newest = max(self._newest, timestamp)
        self.quotas.add(change_of(record, timestamp))
        if self._keep:
            self.entries.append(LogEntry(offset, timestamp, record))

    def _skip_what_is_gone(self, ends: dict[int, int]) -> None:
        """Move past offsets that hold no record any more: compacted away, or a transaction's marker."""
        partitions = [TopicPartition(self._topic, partition) for partition in ends]
        for position in self._consumer.position(partitions):
            self._positions[position.partition] = max(self._positions[position.partition], position.offset)
