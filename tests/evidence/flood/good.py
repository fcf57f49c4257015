"""Good requests at a steady rate, and their waits for a decision."""

import json
import re
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from quota.settings import Settings
from tests.evidence.flood.answered import Position
from tests.support.clients import QUIET
from tests.support.topics import end_offsets

USERS = 10
_ID = re.compile(rb'"request_id":"([^"]*?)-(\d+)"')
_MAX_MESSAGES = 500
_POLL_SECONDS = 0.01


class Good:
    """Sends requests in one thread and reads decisions in another, inside the block."""

    def __init__(self, settings: Settings, rate: float) -> None:
        """Prepare to send at a rate, requests/s."""
        self.positions: set[Position] = set()
        """Positions of the requests."""
        self.others: set[str] = set()
        """Ids of other requests that were decided."""
        self._settings = settings
        self._rate = rate
        self._sent_at: list[float] = []
        self._decided_at: dict[int, float] = {}
        self._stop, self._end = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._read)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_sending()
        self._end.set()
        self._threads[1].join()

    def stop_sending(self) -> None:
        """Stop sending; decisions are still read."""
        self._stop.set()
        self._threads[0].join()

    def undecided(self, until: float) -> int:
        """Return the number of requests sent before `until` (monotonic time) without a decision."""
        return sum(at < until and number not in self._decided_at for number, at in enumerate(list(self._sent_at)))

    @property
    def sent(self) -> int:
        """Number of requests sent."""
        return len(self._sent_at)

    def waits(self, begun: float, ended: float) -> Sequence[float]:
        """Return the waits, seconds, of requests sent in an interval (monotonic time), sorted."""
        sent = enumerate(list(self._sent_at))
        return sorted(
            self._decided_at[each] - at for each, at in sent if begun <= at < ended and each in self._decided_at
        )

    def _send(self) -> None:
        producer = Producer({**QUIET, "bootstrap.servers": self._settings.kafka.bootstrap_servers, "linger.ms": 0})
        began = time.monotonic()
        while not self._stop.is_set():
            if (due := began + len(self._sent_at) / self._rate - time.monotonic()) > 0:
                producer.poll(due)
                continue
            number = len(self._sent_at)
            user = f"tenant-{number % USERS}"
            request = {
                "request_id": f"good-{number}",
                "user": user,
                "operation": "CREATE_TOPICS",
                "api_version": 7,
                "topics": [{"name": f"topic-{number}", "partitions": 1}],
            }
            self._sent_at.append(time.monotonic())
            value = json.dumps(request).encode()
            producer.produce(self._settings.topics.requests, value, user.encode(), on_delivery=self._delivered)
        producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.positions.add((message.partition(), message.offset()))

    def _read(self) -> None:
        topic = self._settings.topics.decisions
        consumer = Consumer(
            {
                **QUIET,
                "bootstrap.servers": self._settings.kafka.bootstrap_servers,
                "group.id": "flood-good",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in end_offsets(self._settings, topic)])
        while not self._end.is_set():
            for message in consumer.consume(_MAX_MESSAGES, _POLL_SECONDS):
                found = _ID.search(message.value())
                if found and found[1] == b"good":
                    self._decided_at.setdefault(int(found[2]), time.monotonic())
                elif found:
                    self.others.add(f"{found[1].decode()}-{found[2].decode()}")
        consumer.close()
