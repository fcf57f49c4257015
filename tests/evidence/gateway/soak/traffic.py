"""Clients that pass through a gateway over TLS: they change topics, come and go, produce and consume."""

import random
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Message, Producer

from jobs.sandbox.broker import HOST
from quota.errors import MutationQuotaError
from quota.wire.api_keys import ApiKey
from tests.evidence.gateway.kills.clients import Client
from tests.evidence.gateway.requests import METADATA_VERSION
from tests.support.clients import QUIET
from tests.support.gateway import protocol
from tests.support.wire.requests import metadata
from tests.support.wire_client import WireClient

PREFIX = "soaked-"
"""The prefix of the names of the topics that clients change."""
_CHANGERS = 6
_RECORD = bytes(1000)
_PAUSE_SECONDS = 0.02
_END_SECONDS = 120


class Traffic:
    """The clients, which run inside `running`, and what they have seen."""

    def __init__(self, port: int, topic: str, authority: str, seed: int) -> None:
        """Take the gateway's port, the topic of records, and the file of the authority that signs its certificate."""
        self._port = port
        self._topic = topic
        self._trusted = ssl.create_default_context(cafile=authority)
        self._properties = {
            **QUIET,
            "bootstrap.servers": f"{HOST}:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": authority,
            "topic.metadata.refresh.interval.ms": 5000,  # partitions are added
        }
        self._over = threading.Event()
        self._all_produced = threading.Event()
        self._chance = random.Random(seed)
        self.changers = [
            Client(number, port, protocol(), self._over.is_set, seed, PREFIX, self._trusted)
            for number in range(_CHANGERS)
        ]
        self.visits = 0
        """The calls of clients that come and go."""
        self.lost_visits = 0
        """Those that failed; also connections that could not be opened."""
        self.produced = 0
        """The records that were acknowledged."""
        self.undelivered = 0
        self.consumed = 0

    @property
    def lost(self) -> int:
        """The calls whose connection was lost, or that could not be connected, so far."""
        return self.lost_visits + sum(client.tally.broken for client in self.changers)

    @contextmanager
    def running(self, visitors: int) -> Iterator[None]:
        """Run all clients inside the block, with so many connections of clients that come and go."""
        threads: list[threading.Thread] = [
            threading.Thread(target=self._visit, args=(visitors,), name="visitors"),
            threading.Thread(target=self._produce, name="producer"),
            *self.changers,
        ]
        consumer = threading.Thread(target=self._consume, name="consumer")
        for thread in [*threads, consumer]:
            thread.daemon = True  # if one hangs, the program still ends
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            ends_at = time.monotonic() + _END_SECONDS
            for thread in threads:
                thread.join(max(ends_at - time.monotonic(), 0))
            self._all_produced.set()
            consumer.join(_END_SECONDS)
        if hanging := [thread.name for thread in [*threads, consumer] if thread.is_alive()]:
            raise MutationQuotaError(f"still waiting: {', '.join(hanging)}")

    def _visit(self, count: int) -> None:
        """Keep so many connections, of which the oldest is replaced each time, and call on one of them."""
        clients: deque[WireClient] = deque()
        while not self._over.wait(_PAUSE_SECONDS):
            try:
                if len(clients) >= count:
                    clients.popleft().close()
                clients.append(WireClient((HOST, self._port), protocol(), "visitor", self._trusted))
                self._chance.choice(clients).call(ApiKey.METADATA, METADATA_VERSION, metadata(self._topic))
                self.visits += 1
            except (OSError, MutationQuotaError):
                self.lost_visits += 1
                clients = deque(client for client in clients if _is_open(client))
        for client in clients:
            client.close()

    def _produce(self) -> None:
        producer = Producer({**self._properties, "client.id": "producer", "linger.ms": 5})

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.produced += 1
            else:
                self.undelivered += 1

        while not self._over.wait(_PAUSE_SECONDS):
            producer.produce(self._topic, _RECORD, on_delivery=delivered)
            producer.poll(0)
        producer.flush(_END_SECONDS)

    def _consume(self) -> None:
        group = {"group.id": "soak", "auto.offset.reset": "earliest", "client.id": "consumer"}
        consumer = Consumer({**self._properties, **group})
        consumer.subscribe([self._topic])
        ends_at = None
        while ends_at is None or (self.consumed < self.produced and time.monotonic() < ends_at):
            message = consumer.poll(0.1)
            self.consumed += message is not None and message.error() is None
            if ends_at is None and self._all_produced.is_set():
                ends_at = time.monotonic() + _END_SECONDS / 2
        consumer.close()


def _is_open(client: WireClient) -> bool:
    """Return whether a connection was not closed by the other side."""
    client.socket.setblocking(False)
    try:
        return bool(client.socket.recv(1))
    except (ssl.SSLWantReadError, BlockingIOError):
        client.socket.setblocking(True)
        return True
    except OSError:
        return False
