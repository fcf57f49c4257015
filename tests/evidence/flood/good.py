"""Good requests at a steady rate, and how long each waits for its decision."""

import json
import re
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from quota.settings.model import Settings
from tests.evidence.flood.answered import Place
from tests.support.records import ends_of

USERS = 10
_ID = re.compile(rb'"request_id":"([^"]*?)-(\d+)"')
_AT_ONCE = 500
_LOOK_SECONDS = 0.01


class Good:
    """Sends in one thread and listens in another, inside the block."""

    def __init__(self, settings: Settings, rate: float) -> None:
        """Send so many a second."""
        self.places: set[Place] = set()
        """Where they stand."""
        self.others: set[str] = set()
        """Ids of other requests that were decided."""
        self._settings = settings
        self._rate = rate
        self._sent: list[float] = []
        self._heard: dict[int, float] = {}
        self._stop, self._end = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._listen)]

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
        """Send no more; what was sent is still listened for."""
        self._stop.set()
        self._threads[0].join()

    def unheard(self, until: float) -> int:
        """How many that were sent before a moment (monotonic time) have no decision yet."""
        return sum(at < until and number not in self._heard for number, at in enumerate(list(self._sent)))

    @property
    def asked(self) -> int:
        """How many were sent."""
        return len(self._sent)

    def waits(self, begun: float, ended: float) -> Sequence[float]:
        """Seconds from sending to hearing, of those that were sent in between (monotonic time)."""
        sent = enumerate(list(self._sent))
        return sorted(self._heard[each] - at for each, at in sent if begun <= at < ended and each in self._heard)

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self._settings.kafka.bootstrap_servers, "linger.ms": 0})
        began = time.monotonic()
        while not self._stop.is_set():
            if (due := began + len(self._sent) / self._rate - time.monotonic()) > 0:
                producer.poll(due)
                continue
            number = len(self._sent)
            user = f"tenant-{number % USERS}"
            request = {
                "request_id": f"good-{number}",
                "user": user,
                "operation": "CREATE_TOPICS",
                "api_version": 7,
                "topics": [{"name": f"topic-{number}", "partitions": 1}],
            }
            self._sent.append(time.monotonic())
            value = json.dumps(request).encode()
            producer.produce(self._settings.topics.requests, value, user.encode(), on_delivery=self._delivered)
        producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.places.add((message.partition(), message.offset()))

    def _listen(self) -> None:
        topic = self._settings.topics.decisions
        consumer = Consumer(
            {
                "bootstrap.servers": self._settings.kafka.bootstrap_servers,
                "group.id": "flood-good",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends_of(self._settings, topic)])
        while not self._end.is_set():
            for message in consumer.consume(_AT_ONCE, _LOOK_SECONDS):
                found = _ID.search(message.value())
                if found and found[1] == b"good":
                    self._heard.setdefault(int(found[2]), time.monotonic())
                elif found:
                    self.others.add(f"{found[1].decode()}-{found[2].decode()}")
        consumer.close()
