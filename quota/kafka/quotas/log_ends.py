"""The end of a log that a consumer follows."""

import logging

from confluent_kafka import Consumer, TopicPartition

from quota.kafka.brokers.replica_ends import Ends, ReplicaEnds
from quota.kafka.reading import in_sync_replicas
from quota.kafka.timing import Every
from quota.settings.connection import Connection

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 60.0
"""How often a topic with single replicas is checked for added ones [s]."""


class LogEnds:
    """The end offsets of a topic's partitions, from its leaders and, optionally, from all in-sync replicas.

    A leader returns the high watermark to consumers. The last records of a replicated topic can have offsets above it:
    they already have timestamps, but can be read only once the other in-sync replicas have them.
    """

    def __init__(
        self, consumer: Consumer, connection: Connection, topic: str, timeout_seconds: float, *, ask_replicas: bool
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._timeout = timeout_seconds
        self._replicas = _replica_ends(connection, topic) if ask_replicas else None
        self._look = Every(_LOOK_SECONDS)
        self._replicated = False

    def fetch(self, partitions: list[int]) -> Ends:
        """Return the current end offsets of partitions."""
        offsets = {each: self._high_watermark(each) for each in partitions}
        if self._replicas is None or not (self._replicated or self._look.is_due()):
            return Ends(offsets, complete=True)
        in_sync = in_sync_replicas(self._consumer, self._topic, self._timeout)
        self._replicated = bool(in_sync)
        if not in_sync:
            return Ends(offsets, complete=True)
        found = self._replicas.fetch(in_sync)
        return Ends({each: max(end, found.offsets.get(each, end)) for each, end in offsets.items()}, found.complete)

    def _high_watermark(self, partition: int) -> int:
        return self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=self._timeout)[1]


def _replica_ends(connection: Connection, topic: str) -> ReplicaEnds | None:
    if not connection.security.is_complete:
        _log.warning(
            "requests do not wait for quota changes that are not fully replicated (topic %s): "
            "[kafka.librdkafka] has properties "
            "of TLS or SASL, which the check of the replicas cannot use; set TLS and SASL in [kafka]",
            topic,
        )
        return None
    return ReplicaEnds(connection, topic)
