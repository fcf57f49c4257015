"""Writing requests, and reading their answers."""

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from quota.admission.identity import request_topic
from quota.admission.policy import MAX_REQUEST_RECORD_BYTES
from quota.errors import BadRecord, ClusterError
from quota.kafka.librdkafka import KeptClient, client_config, cluster_errors
from quota.kafka.producers import RecordProducer
from quota.kafka.reading import (
    Partition,
    Skipped,
    make_consumer,
    message_source,
    poll_batch,
    read_topic,
    start_offset,
    topic_partitions,
)
from quota.kafka.timing import Every
from quota.kafka.topics.topic_admin import OpenTransactions, TopicAdmin
from quota.records import codec
from quota.records.dead_letter import DeadLetter, read_dead_letter
from quota.records.decision import Decision, read_decision
from quota.records.request import MutationRequest, read_request
from quota.settings import Settings

MAX_REQUESTS_PER_BATCH = 50_000
"""The maximum number of requests in a micro-batch of the enforcing query."""

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.01
_LOOK_SECONDS = 1.0
"""The time limit of a call for the offsets of a request topic [s]: meanwhile no answers are read."""
_MAX_MESSAGES = 1000
_MAX_RECALLED = 10_000
"""How many of the latest requests of each partition are read again."""
_ANSWER_HEAD = 512
"""The prefix of a decision [bytes] that contains its own id, which is shorter than 300, and the beginning
of the request id."""
_MISSING_SECONDS = 30.0
"""How long a topic may be missing at most, librdkafka's default [s]."""
_REFRESH_SECONDS = 30.0
_REFRESH_TIMEOUT_SECONDS = 1.0

_REQUEST_ID = re.compile(r'\{"request_id":"([^"]*)"')
"""The start of each of our requests, by which even a dead letter that is cut off is recognized."""

DeliveryCallback = Callable[[KafkaError | None, Message], None]
"""Called by `poll` or `flush` when a request is in its topic, or could not be delivered."""


class RequestWriter:
    """A producer of mutation requests, with the user as record key."""

    def __init__(
        self,
        settings: Settings,
        linger_ms: int = 5,
        overrides: Mapping[str, str | float] | None = None,
        limit_seconds: float | None = None,
    ) -> None:
        """Connect; requests sent to one partition within `linger_ms` form one batch and get one timestamp.

        A request that is not delivered within `limit_seconds` has failed; a missing topic is reported before that time.
        """
        self._topics = settings.topics
        self._kafka = settings.kafka
        self._action = f"send requests to Kafka at {settings.kafka.bootstrap_servers}"
        own: dict[str, str | float] = {
            "linger.ms": linger_ms,
            "enable.idempotence": True,  # librdkafka's retries write a request once
            "message.max.bytes": MAX_REQUEST_RECORD_BYTES * 2,
        }
        self._overrides = overrides
        own |= overrides or {}
        if limit_seconds is not None:
            own["message.timeout.ms"] = math.ceil(limit_seconds * 1000)
            own["topic.metadata.propagation.max.ms"] = round(min(limit_seconds / 2, _MISSING_SECONDS) * 1000)
        self._kept = KeptClient(lambda: RecordProducer(client_config(settings.kafka.connection, own)))
        self._admin = TopicAdmin(settings.kafka.connection, _LOOK_SECONDS, overrides)
        self._open = OpenTransactions(self._admin)
        self._last_topic = self._topics.requests
        self._former: list[RecordProducer] = []
        """The producers that were replaced, until their requests are delivered or have failed."""

    def check_topic(self, user: str) -> None:
        """Check that the topic for a user's requests exists."""
        topic = request_topic(user, self._topics)
        with self._errors():  # all topics: a broker may create one that is named
            existing = self._kept.client.producer.list_topics(timeout=self._kafka.timeout_seconds).topics
        if topic not in existing:
            problem = f"cannot {self._action}: topic {topic} does not exist, or this principal may not describe it"
            if self._topics.user_topic_prefix:
                problem += f"; mutation-quota user-topics prepare --user {user} creates it"
            raise ClusterError(problem)

    def send(self, *requests: MutationRequest, on_delivery: DeliveryCallback | None = None) -> None:
        """Enqueue requests, in this order, as `send_bytes` does."""
        for request in requests:
            topic = self._last_topic = request_topic(request.user, self._topics)
            self.send_bytes(topic, codec.encode(request), request.user.encode(), on_delivery)

    def send_bytes(
        self, topic: str, value: bytes | None, key: bytes | None = None, on_delivery: DeliveryCallback | None = None
    ) -> None:
        """Enqueue any record.

        With `on_delivery`, this never waits, and errors of delivery are passed to it by `poll`. Without, this waits
        while the queue is full, and errors are raised by the next call or by `flush`.
        """
        if on_delivery is not None:
            records = self._kept.client
            records.producer.produce(topic, value, key, on_delivery=partial(self._on_delivery, records, on_delivery))
            self._keep_former(records)
            return
        with self._errors():
            self._kept.client.send(topic, value, key)

    def open_transaction(self) -> str:
        """Return which transaction hides requests of the topic of the last one, now and at the last call, if any."""
        with suppress(ClusterError):
            return self._open.look(self._admin.ends(self._last_topic))
        return ""

    @property
    def acknowledged(self) -> int:
        """The number of records sent without a callback that the cluster has acknowledged."""
        return self._kept.client.acknowledged

    def poll(self) -> None:
        """Call the callbacks of requests that were delivered or failed."""
        self._kept.client.producer.poll(0)
        for former in [*self._former]:
            former.producer.poll(0)
            if not len(former.producer):
                self._former.remove(former)

    def flush(self, seconds: float) -> None:
        """Wait until all requests are acknowledged."""
        with self._errors():
            self._kept.client.flush(seconds)

    def _on_delivery(
        self, records: RecordProducer, on_delivery: DeliveryCallback, error: KafkaError | None, message: Message
    ) -> None:
        self._kept.report(records, error)
        self._keep_former(records)
        on_delivery(error, message)

    def _keep_former(self, records: RecordProducer) -> None:
        if records is not self._kept.client and records not in self._former:
            self._former.append(records)

    def _errors(self) -> AbstractContextManager[None]:
        return cluster_errors(self._action, self._kafka.connection, overrides=self._overrides)


Answer = Decision | DeadLetter


@dataclass(frozen=True, slots=True)
class ReceivedAnswer:
    """An answer, and the timestamp of its record (epoch ms)."""

    answer: Answer
    at: int


class AnswerReader:
    """A consumer of decisions and dead letters, without a consumer group."""

    def __init__(
        self,
        settings: Settings,
        *,
        since: int | None = None,
        request_id_prefix: str = "",
        overrides: Mapping[str, str | float] | None = None,
    ) -> None:
        """Find the partitions of the topics; records are read from their ends, or `since` [epoch ms]; 0 for all.

        Decisions on requests whose ids have another prefix are skipped without being parsed.
        """
        topics = settings.topics
        self._readers: dict[str, Callable[[bytes | None], Answer]] = {
            topics.decisions: read_decision,
            topics.dead_letters: read_dead_letter,
        }
        self._dead_letters = topics.dead_letters
        self._id_start = _id_start(request_id_prefix) if request_id_prefix else b""
        self._positions: dict[Partition, int] = {}
        """The next offset of each partition that is assigned, or where its reading starts."""

        positions = self._positions  # a reader that could not begin ends at once, without a cycle

        def make() -> Consumer:
            consumer = make_consumer(settings.kafka.connection, "mutation-quota-answers", overrides)
            consumer.assign([TopicPartition(*partition, offset) for partition, offset in positions.items()])
            return consumer

        self._kept = KeptClient(make)
        self._forbidden: set[str] = set()
        self._skipped = Skipped("an answer")
        self._refresh = Every(_REFRESH_SECONDS, at_once=False)
        action = f"read answers from Kafka at {settings.kafka.bootstrap_servers}"
        with cluster_errors(action, settings.kafka.connection, overrides=overrides):
            seconds = settings.kafka.timeout_seconds
            self._assign_new_partitions(seconds, since)

    def read(self, seconds: float = _POLL_SECONDS) -> Iterator[ReceivedAnswer]:
        """Yield the answers since the last call; wait up to `seconds` for the first one."""
        if self._refresh.is_due():
            try:
                self._assign_new_partitions(_REFRESH_TIMEOUT_SECONDS, since=0)
            except KafkaException as error:
                _log.debug("cannot check for new partitions: %s", error)
        consumer = self._kept.client
        for message in poll_batch(consumer, _MAX_MESSAGES, seconds):
            if (failure := message.error()) is not None:
                self._warn_if_forbidden(message.topic() or "", failure)
                continue
            self._kept.report(consumer, None)
            source = message_source(message)
            self._positions[source.topic, source.partition] = source.offset + 1
            is_letter = message.topic() == self._dead_letters
            if not is_letter and self._id_start not in (message.value() or b"")[:_ANSWER_HEAD]:
                continue
            try:
                answer = self._readers[message.topic() or ""](message.value())
            except BadRecord as error:
                self._skipped.add(message, error)
            else:
                yield ReceivedAnswer(answer, message.timestamp()[1])

    def close(self) -> None:
        """Close the connection."""
        self._kept.client.close()

    def _warn_if_forbidden(self, topic: str, error: KafkaError) -> None:
        """Warn once per topic: there is no other sign that its answers are missed."""
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and topic not in self._forbidden:
            self._forbidden.add(topic)
            _log.warning(
                "this principal may not read topic %s, so its answers are missing (docs/explanation/security.md)",
                topic,
            )

    def _assign_new_partitions(self, seconds: float, since: int | None) -> None:
        """Read the partitions that are not assigned yet, including those added since the last time."""
        new = []
        with self._kept.reporting() as consumer:
            for topic in self._readers:
                for partition in topic_partitions(consumer, topic, seconds):
                    if (topic, partition) not in self._positions:
                        start = TopicPartition(topic, partition, OFFSET_BEGINNING)
                        if since != 0:
                            start.offset = start_offset(consumer, start, since, seconds)
                        new.append(start)
            if new:
                consumer.incremental_assign(new)
                self._positions |= {(start.topic, start.partition): start.offset for start in new}


def read_requests(settings: Settings, request_id_prefix: str) -> list[MutationRequest]:
    """Return the latest requests whose ids have a prefix, in the order of their times."""
    topic, connection, start = settings.topics.requests, settings.kafka.connection, _id_start(request_id_prefix)
    found: list[tuple[int, MutationRequest]] = []
    with cluster_errors(f"read requests from Kafka at {settings.kafka.bootstrap_servers}", connection):
        for message in read_topic(connection, topic, settings.kafka.timeout_seconds, _MAX_RECALLED):
            value = message.value() or b""
            if start in value[:_ANSWER_HEAD]:
                with suppress(BadRecord):
                    found.append((message.timestamp()[1], read_request(value)))
    found.sort(key=itemgetter(0))
    return [request for _, request in found]


def _id_start(prefix: str) -> bytes:
    return f'"request_id":"{prefix}'.encode()


def rejected_id(letter: DeadLetter, topic: str) -> str | None:
    """Return the id of a rejected request, if it came through our topic: anybody may write to another one."""
    match = _REQUEST_ID.match(letter.value or "")
    return match[1] if match and letter.source.topic == topic else None
