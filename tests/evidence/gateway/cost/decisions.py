"""The requests and decisions of measured mutations, and a stand-in for the job that decides at once."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from jobs.background import background
from quota.admission.decide import decide
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import MutationQuotaError
from quota.kafka.reading import make_consumer, message_source, offset_range, topic_partitions
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.record import Record
from quota.settings import Settings
from quota.timeline.timeline import QuotaTimeline
from tests.support.clients import QUIET

_POLL_SECONDS = 0.1
_TIMEOUT_SECONDS = 60.0


class Observer:
    """Measures the time from a request in its topic to its decision, by a consumer like the gateway's."""

    def __init__(self, settings: Settings) -> None:
        """Prepare to read both topics from their present ends on, and to admit each request at once."""
        self._settings = settings
        self._consumer = make_consumer(settings.kafka.connection, "cost")
        self._consumer.assign(list(_ends(self._consumer, (settings.topics.requests, settings.topics.decisions))))
        self._producer = Producer({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 0})
        self._asked: dict[str, float] = {}
        self._took: list[float] = []
        self._came = threading.Condition()

    def decision_seconds(self, number: int) -> float:
        """Return the time from a request to its decision, the requests counted from 0; wait for it if need be."""
        with self._came:
            if not self._came.wait_for(lambda: len(self._took) > number, _TIMEOUT_SECONDS):
                raise MutationQuotaError(f"no decision {number} within {_TIMEOUT_SECONDS:.0f} s")
            return self._took[number]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Read on a thread inside the block."""
        try:
            with background(self._work, "observer"):
                yield
        finally:
            self._consumer.close()
            self._producer.flush(_TIMEOUT_SECONDS)

    def _work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            message = self._consumer.poll(_POLL_SECONDS)
            if message is None or message.error() is not None:
                continue
            now = time.perf_counter()
            request_id = json.loads(message.value())["request_id"]
            if message.topic() == self._settings.topics.requests:
                self._asked[request_id] = now
                self._decide(message)
            elif request_id in self._asked:
                with self._came:
                    self._took.append(now - self._asked.pop(request_id))
                    self._came.notify_all()

    def _decide(self, message: Message) -> None:
        record = Record(message_source(message), message.timestamp()[1], message.value(), message.key())
        resolved = resolve(record, QuotaTimeline(), self._settings.policy)
        if isinstance(resolved, DeadLetter):
            raise MutationQuotaError(resolved.error)
        _, (decision,) = decide(None, [resolved], TokenBucket(self._settings.quota.window))
        self._producer.produce(self._settings.topics.decisions, codec.encode(decision), message.key())
        self._producer.poll(0)


def _ends(consumer: Consumer, topics: tuple[str, ...]) -> Iterator[TopicPartition]:
    for topic in topics:
        for number in topic_partitions(consumer, topic, _TIMEOUT_SECONDS):
            each = TopicPartition(topic, number)
            _, each.offset = offset_range(consumer, each, _TIMEOUT_SECONDS)
            yield each
