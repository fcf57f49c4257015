"""Topics created and deleted, direct and through the gateway, with a stand-in for the job that decides at once."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import mean, median

import msgspec
from confluent_kafka import TopicPartition

from jobs.background import background
from quota.errors import MutationQuotaError
from quota.kafka.reading import make_consumer, offset_range, topic_partitions
from quota.settings import Settings
from tests.evidence.gateway.cost.routes import Routes, Row
from tests.evidence.gateway.cost.size import Size
from tests.evidence.gateway.requests import Request, create, delete, metadata
from tests.support.gateway import StandIn
from tests.support.waiting import until
from tests.support.wire.requests import topic as new_topic
from tests.support.wire_client import WireClient

COUNTS = (1, 50)
"""Numbers of topics of a request, each of one partition."""

_SECONDS = 60.0


def mutations(routes: Routes, settings: Settings, size: Size) -> list[Row]:
    """Measure the creates and the deletes of each size, direct and through the gateway in turns."""
    with StandIn(settings), _observed(settings) as decisions:
        return [row for count in COUNTS for row in _of_topics(routes, decisions, count, size)]


def _of_topics(routes: Routes, decisions: "_Decisions", count: int, size: Size) -> Iterator[Row]:
    runs: dict[str, list[tuple[float, ...]]] = {"create": [], "delete": []}
    with routes.direct.connect() as direct, routes.rewriting.connect() as through:
        for number in range(size.mutations_warm_up + size.mutations):
            own, other = ([f"{way}-{count}-{number}-{nth}" for nth in range(count)] for way in ("direct", "through"))
            for kind, request in (("create", _create), ("delete", _delete)):
                alone = _seconds(direct, request(own))
                cpu = routes.rewriting.cpu_seconds()
                whole = _seconds(through, request(other))
                cpu = routes.rewriting.cpu_seconds() - cpu
                decision = decisions.next_seconds()
                if number >= size.mutations_warm_up:
                    runs[kind].append((alone, whole, decision, whole - decision, cpu))
                if kind == "create":
                    until(partial(_are_listed, direct, [*own, *other]), _SECONDS, 0)
    for kind, measured in runs.items():
        alone, whole, decision, rest = (median(column) * 1e3 for column in list(zip(*measured, strict=True))[:4])
        yield {
            "request": f"{kind} {count} {'topic' if count == 1 else 'topics'}",
            "direct_ms": alone,
            "gateway_ms": whole,
            "decision_ms": decision,
            "rest_ms": rest,
            "above_ms": rest - alone,
            "cpu_ms": mean(run[-1] for run in measured) * 1e3,
        }


def _create(names: list[str]) -> Request:
    return create("create", 7, *(new_topic(name, 1) for name in names))


def _delete(names: list[str]) -> Request:
    return delete("delete", 6, *names)


def _are_listed(client: WireClient, names: list[str]) -> bool:
    """Return whether the broker lists topics that were created, so that deletes find them as on a quiet cluster."""
    return not any(topic["errorCode"] for topic in metadata("", *names).call(client)["topics"])


def _seconds(client: WireClient, request: Request) -> float:
    begun = time.perf_counter()
    answer = request.call(client)
    took = time.perf_counter() - begun
    failed = [topic for topic in answer.get("topics", answer.get("responses")) if topic["errorCode"]]
    if failed:
        raise MutationQuotaError(f"{request.name}: {failed[0]}")
    return took


class _Decisions:
    """The times from the requests in their topic to their decisions, by a consumer like the gateway's."""

    def __init__(self, settings: Settings) -> None:
        self._consumer = make_consumer(settings.kafka.connection, "cost")
        self._consumer.assign(
            [
                TopicPartition(topic, number, offset_range(self._consumer, TopicPartition(topic, number), _SECONDS)[1])
                for topic in (settings.topics.requests, settings.topics.decisions)
                for number in topic_partitions(self._consumer, topic, _SECONDS)
            ]
        )
        self._took: list[float] = []
        self._numbers = itertools.count()

    def next_seconds(self) -> float:
        """Return the time of the next decision, and wait for it if need be."""
        number = next(self._numbers)
        until(lambda: len(self._took) > number, _SECONDS, 0.001)
        return self._took[number]

    def read(self, stop: threading.Event) -> None:
        """Read both topics until the end; a decision may be fetched before its request."""
        seen: dict[str, float] = {}
        while not stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            now = time.perf_counter()
            request_id = msgspec.json.decode(message.value())["request_id"]
            if request_id in seen:
                self._took.append(now - seen.pop(request_id))
            else:
                seen[request_id] = now
        self._consumer.close()


@contextmanager
def _observed(settings: Settings) -> Iterator[_Decisions]:
    """Observe decisions inside the block, from now on."""
    decisions = _Decisions(settings)
    with background(decisions.read, "decisions"):
        yield decisions
