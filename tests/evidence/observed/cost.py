"""The cost of a broker's request log: processor time and latency at a fixed load, with and without it in turn."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.background import background
from tests.evidence.observed.place import Place
from tests.evidence.percentiles import percentile
from tests.support.clients import QUIET
from tests.support.programs import processor_seconds

RATE = 500
"""Records per second, each in a separate request."""

_TOPIC = "load"
_UNCOUNTED_SECONDS = 2.0
_LEVELS = ("WARN", "DEBUG")


@dataclass
class Cost:
    """The measurements at one log level, one per round."""

    processor_ms: list[float] = field(default_factory=list)
    """Processor time of the broker per second, ms."""
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    """Percentiles of the times from produce to acknowledgement, ms."""


@dataclass(frozen=True, slots=True)
class LogCost:
    """The cost at both log levels, and the size of the log."""

    without: Cost
    with_log: Cost
    bytes_per_request: float

    @property
    def ratio(self) -> float:
        """Processor time with the log, divided by that without it."""
        return median(self.with_log.processor_ms) / median(self.without.processor_ms)


def measure_cost(there: Place, rounds: int, seconds: float, notify: Callable[[str], None]) -> LogCost:
    """Measure both log levels in turn, with a producer at a fixed rate and a consumer; the first round warms up."""
    servers = {**QUIET, "bootstrap.servers": there.settings.kafka.bootstrap_servers}
    admin = AdminClient(servers)  # it has to outlive its futures
    admin.create_topics([NewTopic(_TOPIC, 1)])[_TOPIC].result()
    consumer = Consumer({**servers, "group.id": "load", "fetch.wait.max.ms": 100})
    consumer.subscribe([_TOPIC])
    costs = {level: Cost() for level in _LEVELS}
    sizes = []
    with background(lambda stop: _consume(consumer, stop), "load"):
        for turn in range(rounds + 1):
            for level, cost in costs.items():
                there.set_level(level)
                before = there.log.stat().st_size if there.log.exists() else 0
                lines = _lines(there)
                used, latencies = _load(there, servers, seconds)
                if not turn:  # warms up
                    continue
                cost.processor_ms.append(1000 * used / seconds)
                cost.p50_ms.append(percentile(latencies, 0.5))
                cost.p99_ms.append(percentile(latencies, 0.99))
                notify(f"round {turn}, {level}: {cost.processor_ms[-1]:.0f} ms of processor time a second")
                if level == "DEBUG":
                    sizes.append((there.log.stat().st_size - before) / max(_lines(there) - lines, 1))
    return LogCost(costs["WARN"], costs["DEBUG"], median(sizes))


def _lines(there: Place) -> int:
    return there.log.read_bytes().count(b"\n") if there.log.exists() else 0


def _consume(consumer: Consumer, stop) -> None:
    while not stop.is_set():
        consumer.poll(0.1)
    consumer.close()


def _load(there: Place, servers: dict[str, str], seconds: float) -> tuple[float, list[float]]:
    """Produce at the rate; return the broker's processor seconds, and the latencies in ms."""
    producer = Producer({**servers, "linger.ms": 0, "batch.num.messages": 1})
    latencies: list[float] = []
    began = time.monotonic()
    counted_from, before = began + _UNCOUNTED_SECONDS, None
    for due in _moments(began, _UNCOUNTED_SECONDS + seconds):
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        if before is None and due >= counted_from:
            before = processor_seconds(there.pid)
        sent = time.monotonic()

        def acknowledged(error, _, sent=sent) -> None:
            if error is None and sent >= counted_from:
                latencies.append(1000 * (time.monotonic() - sent))

        producer.produce(_TOPIC, b"x" * 100, on_delivery=acknowledged)
    producer.flush(10)
    return processor_seconds(there.pid) - before, latencies


def _moments(began: float, seconds: float) -> Iterator[float]:
    return (began + number / RATE for number in range(int(seconds * RATE)))
