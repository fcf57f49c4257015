"""Reads from a cluster: its metadata, the offsets of partitions, and the records of topics.

The functions raise KafkaException if the cluster does not answer in time, and those of topics also if there is no such
topic; `read_window` raises ClusterError.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, ResourceType, TopicMetadata

from quota.errors import BadRecord, ClusterError
from quota.kafka.librdkafka import client_config, cluster_errors, retry
from quota.kafka.timing import Deadline, Every
from quota.records.quota_log import Window
from quota.records.record import Source
from quota.settings.connection import Connection
from quota.wire.protocol import Address

_log = logging.getLogger(__name__)

Partition = tuple[str, int]
"""A topic, and the number of a partition."""

_FETCH_WAIT_MS = 50
"""How long a broker may delay an empty fetch, and with it the report that a partition's end is reached."""

_WINDOW_NUM, _WINDOW_SIZE = "controller.quota.window.num", "controller.quota.window.size.seconds"

_MIN_CALL_SECONDS = 0.1
_GROUP = "mutation-quota-reader"
_POLL_SECONDS = 1.0
_MAX_MESSAGES = 10_000
TRANSACTION_SECONDS = 900.0
"""How long a transaction stays open at most, by the brokers' default of `transaction.max.timeout.ms` [s]."""


def read_broker_configs(client: AdminClient, timeout_seconds: float) -> dict[str, str]:
    """Return the configs of one broker by their names; all brokers should have the same."""
    nodes = client.list_topics(timeout=timeout_seconds).brokers
    if not nodes:
        raise ClusterError("the cluster's metadata contain no brokers")
    resource = ConfigResource(ResourceType.BROKER, str(min(nodes)))
    (future,) = client.describe_configs([resource], request_timeout=timeout_seconds).values()
    return {name: entry.value for name, entry in future.result().items() if entry.value is not None}


def read_window(connection: Connection, timeout_seconds: float) -> Window:
    """Return the window of a broker's controller quotas, which determines the bursts there."""
    with cluster_errors(f"read the window of Kafka at {connection}", connection):
        configs = read_broker_configs(AdminClient(client_config(connection)), timeout_seconds)
    if _WINDOW_NUM not in configs:
        raise ClusterError(f"the brokers of {connection} have no {_WINDOW_NUM}, which requires Kafka 2.7")
    return Window(int(configs[_WINDOW_NUM]), int(configs[_WINDOW_SIZE]))


def topic_partitions(client: Consumer | Producer, topic: str, timeout_seconds: float) -> list[int]:
    """Return the partitions of a topic."""
    return sorted(_topic_metadata(client.list_topics(topic, timeout_seconds), topic).partitions)


def in_sync_replicas(client: Consumer | Producer, topic: str, timeout_seconds: float) -> dict[Address, list[int]]:
    """Return the brokers with replicas that are in sync, each with the partitions of these replicas.

    Empty if no partition has more than one replica, in sync or not.
    """
    cluster = client.list_topics(topic, timeout_seconds)
    partitions = _topic_metadata(cluster, topic).partitions.values()
    if all(len(partition.replicas) <= 1 for partition in partitions):
        return {}
    return {
        (broker.host, broker.port): held
        for broker in cluster.brokers.values()
        if (held := [partition.id for partition in partitions if broker.id in partition.isrs])
    }


def _topic_metadata(cluster: ClusterMetadata, topic: str) -> TopicMetadata:
    metadata = cluster.topics[topic]
    if metadata.error is not None:
        raise KafkaException(KafkaError(metadata.error.code(), f"topic {topic}: {metadata.error.str()}"))
    return metadata


def offset_range(consumer: Consumer, partition: TopicPartition, timeout_seconds: float) -> tuple[int, int]:
    """Return the first offset of a partition and its end offset. Retries while the leader moves."""
    deadline = Deadline(timeout_seconds)

    def watermarks() -> tuple[int, int]:
        return consumer.get_watermark_offsets(partition, deadline.left(at_least=_MIN_CALL_SECONDS))

    first, end = retry(watermarks, deadline)
    return int(first), int(end)


def start_offset(consumer: Consumer, partition: TopicPartition, since: int | None, timeout_seconds: float) -> int:
    """Return the first offset from `since` (epoch ms) on, or the end of a partition."""
    first, end = offset_range(consumer, partition, timeout_seconds)
    if since is None:
        return end
    wanted = TopicPartition(partition.topic, partition.partition, max(since, 0))
    (start,) = consumer.offsets_for_times([wanted], timeout_seconds)
    return max(start.offset, first) if start.offset >= 0 else end


def make_consumer(connection: Connection, group: str, overrides: Mapping[str, str | float] | None = None) -> Consumer:
    """Return a consumer for partitions that are assigned by hand. It reports the end of a partition as an error.

    Where the records at its position are deleted, it continues at the first one that remains.
    """
    own: dict[str, str | float] = {
        "auto.offset.reset": "earliest",
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",  # librdkafka's default, which properties of the settings must not change
        "fetch.wait.max.ms": _FETCH_WAIT_MS,
    }
    return Consumer(client_config(connection, {**own, **(overrides or {})}))


def poll_batch(consumer: Consumer, max_messages: int, seconds: float) -> list[Message]:
    """Return the messages that are available, waiting up to `seconds` for the first one only."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(max_messages - 1, 0)]


def message_source(message: Message) -> Source:
    """Return the position of a message, which must not be an error."""
    return Source(cast("str", message.topic()), cast("int", message.partition()), cast("int", message.offset()))


def end_of_transaction(servers: str, partition: Partition, offset: int) -> str:
    """Return which transaction is open, by the offset of its first record, and how to end it."""
    topic, number = partition
    return (
        f"a transaction has been open on {topic}-{number} since offset {offset}; unless it ends by itself, end it: "
        f"kafka-transactions.sh --bootstrap-server {servers} abort --topic {topic} --partition {number} "
        f"--start-offset {offset}"
    )


def read_topic(  # noqa: PLR0913
    connection: Connection,
    topic: str,
    timeout_seconds: float,
    max_per_partition: int | None = None,
    since: int | None = None,
    *,
    await_open: bool = False,
) -> Iterator[Message]:
    """Yield the committed records of a topic up to its current end, in order within a partition.

    With `max_per_partition`, only the latest offsets of each partition are read; with `since` (epoch ms), only from the
    first record that has this time on. The time limit is that of each call for metadata and offsets, and of the longest
    wait for a record. An open transaction hides all records after its first one, also those that others have committed:
    with `await_open`, its end is awaited.
    """
    consumer = make_consumer(connection, _GROUP)
    try:
        starts = []
        for partition in topic_partitions(consumer, topic, timeout_seconds):
            first, end = offset_range(consumer, TopicPartition(topic, partition), timeout_seconds)
            start = first if max_per_partition is None else max(first, end - max_per_partition)
            if since is not None:
                start = start_offset(consumer, TopicPartition(topic, partition), since, timeout_seconds)
            starts.append(TopicPartition(topic, partition, start))
        consumer.assign(starts)
        unfinished = {start.partition for start in starts}
        ends: dict[int, int] = {}
        seconds = timeout_seconds
        deadline = Deadline(seconds)
        while unfinished:
            for message in poll_batch(consumer, _MAX_MESSAGES, _POLL_SECONDS):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    at = message_source(message)
                    if await_open and at.offset < _end_at_first(consumer, at, ends):
                        open_since = end_of_transaction(connection.servers, (topic, at.partition), at.offset)
                        _log.info("waiting: %s", open_since)
                        seconds = max(timeout_seconds, TRANSACTION_SECONDS)
                    else:
                        unfinished.discard(at.partition)
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED or deadline.has_passed:
                    raise KafkaException(error)
                else:
                    continue
                deadline = Deadline(seconds)
            if deadline.has_passed:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no records of topic {topic} arrive"))  # noqa: SLF001
    finally:
        consumer.close()


def _end_at_first(consumer: Consumer, at: Source, ends: dict[int, int]) -> int:
    """Return the high watermark of a partition when all of its committed records were read for the first time."""
    if at.partition not in ends:
        _, ends[at.partition] = consumer.get_watermark_offsets(TopicPartition(at.topic, at.partition), cached=True)
    return ends[at.partition]


_LOG_SECONDS = 10.0


class Skipped:
    """The skipped records of one consumer, in the log: at once, and then at most every ten seconds."""

    counts: ClassVar[Counter[str]] = Counter()
    """The records that all consumers of this program have skipped, by topic."""
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, expected: str) -> None:
        """Start without records; `expected` is what they should be, such as `a decision`."""
        self._expected = expected
        self._log_now = Every(_LOG_SECONDS)
        self._unlogged = 0

    def add(self, message: Message, error: BadRecord) -> None:
        """Count a record that is not what it should be."""
        source = message_source(message)
        with self._lock:
            self.counts[source.topic] += 1
        if self._log_now.is_due():
            more = f" (and {self._unlogged:,} before it)" if self._unlogged else ""
            _log.warning("skipped %s%s, which is not %s: %s", source, more, self._expected, error)
            self._unlogged = 0
        else:
            self._unlogged += 1
