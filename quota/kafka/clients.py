"""What all Kafka clients of this project share."""

import time
from collections.abc import Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from quota.records.record import Source
from quota.settings.connection import Connection

_LOOK_SECONDS = 0.1
_FETCH_WAIT_MS = 50
"""How long a broker lets a consumer wait for a first record, and so for the news that a topic's end is reached."""


_WHY_SECONDS = 1.0
"""How long a cluster is asked once more, for the reason why it cannot be reached."""

_SPEECHLESS = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001
"""What librdkafka calls any trouble with all servers."""


def client_config(connection: Connection, more: Mapping[str, str | float] | None = None) -> dict[str, str | float]:
    """librdkafka's settings for a cluster.

    Its own log stays quiet: what matters reaches the caller as an exception, with a sentence of ours.
    """
    return {**connection.librdkafka(), "log_level": 2, **(more or {})}


def reason(error: KafkaException | KafkaError) -> str:
    """What went wrong, as a person reads it."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return str(cause.str() if isinstance(cause, KafkaError) else cause)


def unreachable(config: Mapping[str, Any], error: KafkaException) -> str:
    """Why a cluster cannot be reached: a wrong password and an unknown certificate, too.

    Args:
        config: librdkafka's settings for the cluster.
        error: what a call to it ended with.
    """
    if error.args[0].code() not in _SPEECHLESS:
        return reason(error)
    heard: list[KafkaError] = []
    listening: dict[str, Any] = {**config, "error_cb": heard.append}
    client = AdminClient(listening)
    deadline = time.monotonic() + _WHY_SECONDS
    while time.monotonic() < deadline:
        client.poll(_LOOK_SECONDS)
        for told in heard:
            if told.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
                return reason(told)
    return reason(error)


def source_of(message: Message) -> Source:
    """Where a message stands; only for one that is no error."""
    return Source(cast("str", message.topic()), cast("int", message.partition()), cast("int", message.offset()))


def tail(connection: Connection, group: str, more: Mapping[str, str | float] | None = None) -> Consumer:
    """A consumer for partitions that are assigned by hand; it says where it has come to a partition's end."""
    own: dict[str, str | float] = {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": _FETCH_WAIT_MS,
    }
    return Consumer(client_config(connection, {**own, **(more or {})}))


def take(consumer: Consumer, most: int, seconds: float) -> list[Message]:
    """What has come, at most so many; waits `seconds` for the first one and for no other."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(most - 1, 0)]


def ends(consumer: Consumer, partition: TopicPartition, seconds: float) -> tuple[int, int]:
    """The first offset of a partition, and the one behind its last; a leader that moves is waited for.

    Raises:
        KafkaException: there is none in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            first, end = consumer.get_watermark_offsets(partition, max(deadline - time.monotonic(), _LOOK_SECONDS))
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return int(first), int(end)


def partitions_of(client: Consumer | Producer, topic: str, seconds: float) -> list[int]:
    """The partitions of a topic.

    Raises:
        KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    found = client.list_topics(topic, seconds).topics[topic]
    if found.error is not None:
        raise KafkaException(KafkaError(found.error.code(), f"topic {topic}: {found.error.str()}"))
    return sorted(found.partitions)
