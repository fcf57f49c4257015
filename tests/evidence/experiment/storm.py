"""The storm of topics, and the unrelated tenants."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.background import background
from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.kafka.clients import client_config
from quota.settings.connection import Connection
from tests.evidence.experiment.figures import Create, Settled

PARTITIONS = 4
PER_REQUEST = 50
REQUESTS_PER_SECOND = 10
"""The storm of KIP-599: partitions per topic, topics per request, and requests per second."""

EVERY_SECONDS = 0.2
"""Time between two creates of a tenant, seconds."""

_TIMEOUT_SECONDS = 300
_WRITING = {
    "linger.ms": 0,
    "message.timeout.ms": _TIMEOUT_SECONDS * 1000,
    # Refreshes the metadata of topics that brokers do not know yet quickly, for as long as a record may wait.
    "topic.metadata.propagation.max.ms": _TIMEOUT_SECONDS * 1000,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
}

Clock = Callable[[], float]
"""Returns the seconds since the storm began."""


class Tenant:
    """Creates topics of one partition at fixed times, and writes a record to each as soon as it is created.

    It never waits for one create before the next.
    """

    def __init__(self, client: AdminClient, cluster: Connection, prefix: str) -> None:
        """Prepare with a client for the creates, the connection for the records, and the prefix of the topics."""
        self._client = client
        self._producer = Producer(client_config(cluster, _WRITING))
        self._prefix = prefix
        self._due: list[float] = []
        self._answered: dict[int, float] = {}
        self._usable: dict[int, float] = {}
        self._first_error: str | None = None

    @property
    def error(self) -> str | None:
        """The first error."""
        return self._first_error

    def creates(self, began: float) -> tuple[Create, ...]:
        """Return all creates so far, with times since `began`."""
        found = []
        for number, due in enumerate(list(self._due)):
            answered, usable = self._answered.get(number), self._usable.get(number)
            found.append(
                Create(
                    due - began,
                    None if answered is None else answered - began,
                    None if usable is None else usable - began,
                )
            )
        return tuple(found)

    def at_work(self, offset: float) -> AbstractContextManager[None]:
        """Create topics inside the block, starting after `offset` seconds."""
        return background(partial(self._work, due=time.monotonic() + offset), self._prefix)

    def _work(self, stop: threading.Event, due: float) -> None:
        while not stop.is_set():
            wait = due - time.monotonic()
            if wait > 0:
                self._producer.poll(wait)
                continue
            self._create(due)
            due += EVERY_SECONDS

    def _create(self, due: float) -> None:
        number = len(self._due)
        name = f"{self._prefix}-{number}"
        self._due.append(due)
        future = self._client.create_topics([NewTopic(name, 1)], request_timeout=_TIMEOUT_SECONDS)[name]
        future.add_done_callback(partial(self._on_created, number, name))

    def _on_created(self, number: int, name: str, future: Future[None]) -> None:
        error = future.exception()
        if error is not None:
            self._first_error = self._first_error or str(error)
            return
        self._answered[number] = time.monotonic()
        self._producer.produce(name, b"", on_delivery=partial(self._on_written, number))

    def _on_written(self, number: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._usable[number] = time.monotonic()
        else:
            self._first_error = self._first_error or error.str()


class Storm(ABC):
    """Asynchronous calls with a common time limit, and the outcome of each topic."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        """Prepare with a time limit in seconds and a clock."""
        self._clock = clock
        self._until = time.monotonic() + seconds
        self._requested = 0
        self._settled: list[Settled] = []

    @property
    def settled(self) -> tuple[Settled, ...]:
        """The outcomes so far."""
        return tuple(self._settled)

    @property
    def is_over(self) -> bool:
        """Whether all requested topics have an outcome."""
        return len(self._settled) == self._requested

    @abstractmethod
    def create(self, names: list[str]) -> None:
        """Create topics in one request."""

    @abstractmethod
    def delete(self, names: list[str]) -> None:
        """Delete topics in one request."""

    def _left(self) -> float:
        return max(self._until - time.monotonic(), 1.0)

    def _expect(self, names: Iterable[str]) -> None:
        self._requested += len(list(names))

    def _settle(self, name: str, error: str | None, *, refused: bool) -> None:
        self._settled.append(Settled(self._clock(), name, error, refused))


class ClientStorm(Storm):
    """Calls of confluent-kafka's AdminClient, or of a `QuotaAdminClient`."""

    def __init__(self, client: AdminClient, seconds: float, clock: Clock) -> None:
        """Prepare with a client, a time limit in seconds and a clock."""
        super().__init__(seconds, clock)
        self._client = client

    def create(self, names: list[str]) -> None:
        """Create topics in one request."""
        topics = [NewTopic(name, PARTITIONS) for name in names]
        self._watch(self._client.create_topics(topics, request_timeout=self._left()))

    def delete(self, names: list[str]) -> None:
        """Delete topics in one request."""
        self._watch(self._client.delete_topics(names, request_timeout=self._left()))

    def _watch(self, futures: dict[str, Future[None]]) -> None:
        self._expect(futures)
        for name, future in futures.items():
            future.add_done_callback(partial(self._on_done, name))

    def _on_done(self, name: str, future: Future[None]) -> None:
        error = future.exception()
        refused = isinstance(error, ThrottlingQuotaExceededError)
        self._settle(name, None if error is None else str(error), refused=refused)
