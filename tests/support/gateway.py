"""A gateway process and a stand-in for the enforcing job, which makes the job's decisions without Spark."""

import queue
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition

from jobs.sandbox.broker import HOST, free_port
from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.kafka.librdkafka import client_config
from quota.kafka.quotas.log import read_log
from quota.kafka.reading import make_consumer, message_source, topic_partitions
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, Window
from quota.records.record import BEGINNING, Record
from quota.timeline.change import QuotaChange
from quota.wire.protocol import Protocol
from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options
from tests.support.programs import command_line, memory_bytes
from tests.support.waiting import until
from tests.support.wire_client import WireClient

_SECONDS = 30


@cache
def protocol():
    """Return Kafka's protocol, from the broker's jar."""
    return Protocol.of_jar(CHECKOUT / ".jars" / "broker")


def wire_client(port, client_id="app"):
    """Return a client that writes its frames itself, connected to a port of this machine."""
    return WireClient((HOST, port), protocol(), client_id)


class StandIn:
    """Decides a deployment's requests in order, as the job does, inside the block.

    While `silent` is set, requests are read but not answered; they are answered when it is cleared. `delay_seconds` is
    the wait before each decision.
    """

    def __init__(self, settings, **rates):
        """Take a deployment, and quotas by user; the user `default` stands for all others."""
        self._settings = settings
        self._quotas = CallbackTimeline()
        for user, rate in rates.items():
            self.set_quota(QuotaEntity(None if user == "default" else user), rate)
        self._algorithm = TokenBucket(
            Window(settings.quota.window_num, settings.quota.window_size_seconds), Policy.of(settings).deduplication
        )
        self._buckets = {}
        self._end = threading.Event()
        self._threads = [threading.Thread(target=target) for target in (self._read, self._answer)]
        self._queue = queue.Queue()
        self._answering = threading.Event()
        self._answering.set()
        self.delay_seconds = 0.0
        self.follows = False
        """Whether it reads the quotas before each decision."""
        self.taken = 0
        """The number of records that were read."""
        self.requests = []
        """The requests that were decided, in order."""
        self.decisions = []

    @property
    def silent(self):
        """Whether it does not respond."""
        return not self._answering.is_set()

    @silent.setter
    def silent(self, silent):
        (self._answering.clear if silent else self._answering.set)()

    def set_quota(self, entity, rate):
        """Set a quota that has always been in force."""
        self._quotas.add(QuotaChange(entity, Quota(rate), BEGINNING))

    def read_quotas(self):
        """Decide by the quotas that are in the deployment's log now."""
        self._quotas = read_log(self._settings).quotas

    def discard(self):
        """Forget requests that were read but not decided yet."""
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()

    def __enter__(self):
        self._consumer = make_consumer(self._settings.kafka.connection, "stand-in")
        topic = self._settings.topics.requests
        partitions = topic_partitions(self._consumer, topic, _SECONDS)
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        self._producer = Producer(client_config(self._settings.kafka.connection, {"linger.ms": 0}))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._answering.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()
        self._producer.flush(_SECONDS)

    def _read(self):
        while not self._end.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                record = Record(message_source(message), message.timestamp()[1], message.value(), message.key())
                self._queue.put(record)
                self.taken += 1

    def _answer(self):
        while not self._end.is_set():
            try:
                record = self._queue.get(timeout=0.1)
            except queue.Empty:
                continue
            self._end.wait(self.delay_seconds)
            self._answering.wait()
            answer, topic = self._decide(record)
            self._producer.produce(topic, codec.encode(answer), record.key)
            self._producer.poll(0)

    def _decide(self, record):
        if self.follows:
            self.read_quotas()
        resolved = resolve(record, self._quotas, Policy.of(self._settings))
        if isinstance(resolved, DeadLetter):
            return resolved, self._settings.topics.dead_letters
        self.requests.append(resolved.request)
        tags = resolved.resolution.tags
        key = tags.user, tags.client_id
        self._buckets[key], decision = decide(self._buckets.get(key), resolved, self._algorithm)
        self.decisions.append(decision)
        return decision, self._settings.topics.decisions


@dataclass
class Gateway:
    """A running gateway."""

    process: subprocess.Popen
    port: int
    log: Path

    @property
    def address(self):
        """Host and port, as a client's bootstrap server."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self):
        """The process."""
        return self.process.pid

    def rss_bytes(self):
        """Return the resident memory of the process (bytes)."""
        return memory_bytes(self.pid)

    def sockets(self):
        """Return the number of its open sockets; the pipes of librdkafka's threads come and go as it likes."""
        found = 0
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                found += str(descriptor.readlink()).startswith("socket:")
        return found

    def clients(self):
        """Return the number of its connections with clients, including those that only the client has closed."""
        sockets = [line.split() for line in Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]]
        return sum(local.endswith(f":{self.port:04X}") and state in {"01", "08"} for _, local, _, state, *_ in sockets)

    def connect(self, seconds=_SECONDS):
        """Return a socket to it."""
        return socket.create_connection((HOST, self.port), seconds)


def start_gateway(settings, log, *given, port=0, constants=None):
    """Start a gateway on a port, and return when it is ready; `given` are settings like `gateway.permissive=false`."""
    port = port or free_port()
    options = as_options(settings, f"gateway.first_port={port}", *given)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command_line("gateway", *options, constants=constants), stdout=subprocess.PIPE, stderr=output
        )
    with process.stdout as lines:  # it prints no more than one
        ready = lines.readline().decode()
    if not ready.startswith("ready "):
        process.kill()
        raise AssertionError(f"no gateway: {log.read_text()}")
    return Gateway(process, port, log)


@contextmanager
def running_gateway(settings, log, *given, port=0, constants=None):
    """Run a gateway inside the block; it must exit with 0 at SIGTERM, and must not have logged an error."""
    gateway = start_gateway(settings, log, *given, port=port, constants=constants)
    try:
        yield gateway
        assert gateway.process.poll() is None, log.read_text()
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(_SECONDS) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        gateway.process.kill()
        gateway.process.wait()


def is_closed(client):
    """Return whether the other side closes a connection instead of responding."""
    try:
        return client.recv(65_536) == b""
    except ConnectionError:
        return True


def settled(gateway, sockets, seconds=20):
    """Wait until a gateway has no more open sockets than it had."""
    until(lambda: gateway.sockets() <= sockets, seconds)
