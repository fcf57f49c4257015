"""What stands in a topic by now."""

from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from quota.kafka.clients import ends, partitions_of, tail, take
from quota.settings.connection import Connection

_GROUP = "mutation-quota-reader"
_READ_SECONDS = 1.0
_MANY = 10_000


def read_topic(cluster: Connection, topic: str, timeout: float, most: int | None = None) -> Iterator[Message]:
    """The records of a topic up to its present end, partition by partition in their order.

    Args:
        cluster: how it is reached.
        topic: its topic.
        timeout: how long it may take to answer, in seconds.
        most: read only so many offsets of each partition, the latest.

    Raises:
        KafkaException: it does not answer in time, or there is no such topic, or it may not be read.
    """
    consumer = tail(cluster, _GROUP)
    try:
        starts = []
        for partition in partitions_of(consumer, topic, timeout):
            first, end = ends(consumer, TopicPartition(topic, partition), timeout)
            starts.append(TopicPartition(topic, partition, first if most is None else max(first, end - most)))
        consumer.assign(starts)
        reading = {each.partition for each in starts}
        while reading:
            for message in take(consumer, _MANY, _READ_SECONDS):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    reading.discard(message.partition())
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:  # nothing will ever come
                    raise KafkaException(error)
    finally:
        consumer.close()
