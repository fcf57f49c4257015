"""Sending requests, and hearing what became of them."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, Producer, TopicPartition

from quota.errors import BadRecord, ClusterError
from quota.kafka.clients import client_config, ends, partitions_of, source_of, tail, take, unreachable
from quota.records import codec
from quota.records.decision import DeadLetter, Decision
from quota.records.request import MutationRequest
from quota.records.result import MutationResult
from quota.settings.model import Settings

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.01
_MOST = 1000
_REFRESH_SECONDS = 30.0
_REFRESH_WAIT_SECONDS = 1.0

Delivered = Callable[[KafkaError | None, Message], None]
"""Told when a request has reached its topic, or why it has not; from within `poll` or `flush`."""


class RequestWriter:
    """Writes mutation requests under the user as their key."""

    def __init__(self, settings: Settings, linger_ms: int = 5, config: Mapping[str, str | float] | None = None) -> None:
        """Connect.

        Args:
            settings: names of topics, and limits.
            linger_ms: what is sent to one partition within this time goes as one batch and gets one timestamp.
            config: librdkafka's settings, over those of `settings`.
        """
        self._topics = settings.topics
        self._kafka = settings.kafka
        own: dict[str, str | float] = {
            "linger.ms": linger_ms,
            "enable.idempotence": True,  # sent again by librdkafka, a request stands in the topic once
            "message.max.bytes": settings.limits.max_request_bytes * 2,
        }
        self._config = client_config(settings.kafka.connection, {**own, **(config or {})})
        self._producer = Producer(self._config)

    def check_topic(self, user: str) -> None:
        """Check that there is a topic for a user's requests.

        Raises:
            ClusterError: there is none, or the cluster does not tell.
        """
        topic, where = self._topics.requests_of(user), f"Kafka at {self._kafka.bootstrap_servers}"
        try:  # of all topics: a broker may create the one that it is asked for
            there = self._producer.list_topics(timeout=self._kafka.timeout_seconds).topics
        except KafkaException as error:
            raise ClusterError(f"cannot send requests to {where}: {unreachable(self._config, error)}") from None
        if topic not in there:
            hint = f"; mutation-quota tenants prepare --user {user} makes it" if self._topics.by_users else ""
            raise ClusterError(
                f"cannot send requests to {where}: there is no topic {topic}, or it may not be seen{hint}"
            )

    def send(self, *requests: MutationRequest, delivered: Delivered | None = None) -> None:
        """Hand requests over to be sent, in this order.

        Raises:
            BadInput: where users have topics of their own, this user's name can be no part of one.
        """
        for request in requests:
            topic = self._topics.requests_of(request.user)
            self.send_bytes(topic, codec.encode(request), request.user.encode(), delivered)

    def send_bytes(
        self, topic: str, value: bytes | None, key: bytes | None = None, delivered: Delivered | None = None
    ) -> None:
        """Hand any record over to be sent."""
        self._producer.produce(topic, value, key, on_delivery=delivered)
        if delivered is None:  # nobody else calls `poll`
            self._producer.poll(0)

    def poll(self) -> None:
        """Have those told whose requests were delivered, or were not."""
        self._producer.poll(0)

    def flush(self, seconds: float) -> None:
        """Wait until everything is acknowledged.

        Raises:
            ClusterError: it is not in time.
        """
        if self._producer.flush(seconds):
            raise ClusterError(f"requests were not acknowledged in {seconds:.0f} s")


Answer = Decision | DeadLetter | MutationResult


@dataclass(frozen=True, slots=True)
class ReceivedAnswer:
    """An answer, and when it reached its topic (epoch ms)."""

    answer: Answer
    at: int


class AnswerReader:
    """Reads decisions, dead letters and perhaps results as they come, without a consumer group."""

    def __init__(
        self,
        settings: Settings,
        *,
        from_beginning: bool = False,
        results: bool = False,
        config: Mapping[str, str | float] | None = None,
    ) -> None:
        """Find the topics' partitions and their ends: whatever comes from now on is read.

        Args:
            settings: names of topics.
            from_beginning: read what is there already, too.
            results: read results, too.
            config: librdkafka's settings, over those of `settings`.

        Raises:
            ClusterError: they cannot be found in time.
        """
        topics = settings.topics
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {
            topics.decisions: msgspec.json.Decoder(Decision),
            topics.dead_letters: msgspec.json.Decoder(DeadLetter),
        }
        if results:
            self._decoders[topics.results] = msgspec.json.Decoder(MutationResult)
        self._consumer = tail(settings.kafka.connection, "mutation-quota-answers", config)
        self._known: set[tuple[str, int]] = set()
        self._forbidden: set[str] = set()
        self._looked = time.monotonic()
        try:
            self._look_for_partitions(settings.kafka.timeout_seconds, from_beginning=from_beginning)
        except KafkaException as error:
            servers = settings.kafka.bootstrap_servers
            why = unreachable(client_config(settings.kafka.connection, config), error)
            raise ClusterError(f"cannot read answers from Kafka at {servers}: {why}") from None

    def read(self, seconds: float = _POLL_SECONDS) -> Iterator[ReceivedAnswer]:
        """What has come since the last call; waits so long for the first of it."""
        if time.monotonic() - self._looked > _REFRESH_SECONDS:
            self._looked = time.monotonic()
            try:
                self._look_for_partitions(_REFRESH_WAIT_SECONDS, from_beginning=True)
            except KafkaException as error:
                _log.debug("cannot look for new partitions now: %s", error)
        for message in take(self._consumer, _MOST, seconds):
            if (wrong := message.error()) is not None:
                self._tell_if_forbidden(message.topic() or "", wrong)
                continue  # passing; the consumer goes on by itself
            source = source_of(message)
            try:
                answer = codec.decode(message.value(), self._decoders[source.topic])
            except BadRecord as error:
                _log.warning("%s is no answer: %s", source, error)
            else:
                yield ReceivedAnswer(answer, message.timestamp()[1])

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()

    def _tell_if_forbidden(self, topic: str, error: KafkaError) -> None:
        """Once a topic: what is not given to be read passes by without any other sign."""
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and topic not in self._forbidden:
            self._forbidden.add(topic)
            _log.warning(
                "topic %s may not be read by this principal (docs/security.md), so its answers are missed", topic
            )

    def _look_for_partitions(self, seconds: float, *, from_beginning: bool) -> None:
        """Take on partitions, also those that are added later."""
        new = []
        for topic in self._decoders:
            for partition in partitions_of(self._consumer, topic, seconds):
                if (topic, partition) not in self._known:
                    each = TopicPartition(topic, partition, OFFSET_BEGINNING)
                    if not from_beginning:
                        _, each.offset = ends(self._consumer, each, seconds)
                    new.append(each)
        if new:
            self._consumer.incremental_assign(new)
            self._known |= {(each.topic, each.partition) for each in new}
