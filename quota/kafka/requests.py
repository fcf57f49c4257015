"""Sending requests, and hearing what was decided."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

from quota import codec
from quota.decision import DeadLetter, Decision
from quota.errors import ClusterError
from quota.kafka.client import client_config, reason
from quota.request import MutationRequest
from quota.settings import Settings

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.01


class RequestWriter:
    """Writes mutation requests under the user as their key."""

    def __init__(self, settings: Settings, linger_ms: int = 5) -> None:
        """Connect; what is sent to one partition within `linger_ms` goes as one batch and gets one timestamp."""
        self._topic = settings.topics.requests
        self._producer = Producer(
            client_config(
                settings.kafka.bootstrap_servers,
                {"linger.ms": linger_ms, "acks": "all", "message.max.bytes": settings.limits.max_request_bytes * 2},
            )
        )

    def send(self, *requests: MutationRequest) -> None:
        """Hand requests over to be sent, in this order."""
        for request in requests:
            self.send_bytes(codec.encode(request), request.user.encode())

    def send_bytes(self, value: bytes | None, key: bytes | None = None) -> None:
        """Hand any record over to be sent."""
        self._producer.produce(self._topic, value, key)
        self._producer.poll(0)

    def flush(self, seconds: float) -> None:
        """Wait until everything is acknowledged.

        Raises:
            ClusterError: it is not in time.
        """
        if self._producer.flush(seconds):
            raise ClusterError(f"requests were not acknowledged in {seconds:.0f} s")


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer, and when it reached its topic (epoch ms)."""

    answer: Decision | DeadLetter
    at: int


class AnswerReader:
    """Reads decisions and dead letters as they come, without a consumer group."""

    def __init__(self, settings: Settings, *, from_beginning: bool = False) -> None:
        """Find the topics' partitions.

        Raises:
            ClusterError: they cannot be found in time.
        """
        topics = settings.topics
        self._types: dict[str | None, type[Decision | DeadLetter]] = {
            topics.decisions: Decision,
            topics.dead_letters: DeadLetter,
        }
        self._consumer = Consumer(
            client_config(
                settings.kafka.bootstrap_servers,
                {"group.id": "mutation-quota-answers", "enable.auto.commit": False, "fetch.wait.max.ms": 50},
            )
        )
        try:
            metadata = self._consumer.list_topics(timeout=settings.kafka.timeout_seconds)
        except KafkaException as error:
            raise ClusterError(f"cannot reach Kafka at {settings.kafka.bootstrap_servers}: {reason(error)}") from None
        start = OFFSET_BEGINNING if from_beginning else OFFSET_END
        self._consumer.assign(
            [
                TopicPartition(topic, partition, start)
                for topic in (topics.decisions, topics.dead_letters)
                for partition in metadata.topics[topic].partitions
            ]
        )

    def read(self) -> Iterator[Heard]:
        """What has come since the last call; without waiting for more."""
        for message in self._consumer.consume(1000, timeout=_POLL_SECONDS):
            if message.error() is not None:
                continue  # passing; the consumer goes on by itself
            try:
                answer = msgspec.json.decode(message.value() or b"", type=self._types[message.topic()])
            except msgspec.DecodeError:
                _log.warning("%s-%s-%s is no answer", message.topic(), message.partition(), message.offset())
            else:
                yield Heard(answer, message.timestamp()[1])

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()
