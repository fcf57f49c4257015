"""A client that makes short calls while others do what is expensive for a gateway, direct and through it."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from jobs.sandbox.broker import HOST
from quota.errors import MutationQuotaError
from quota.settings import Settings
from quota.wire.api_keys import ApiKey
from tests.evidence.gateway.cost.routes import Route, Routes, Row
from tests.evidence.gateway.cost.size import Size
from tests.evidence.gateway.requests import Request, create, delete
from tests.evidence.percentiles import percentile
from tests.support.clients import QUIET
from tests.support.gateway import StandIn, protocol
from tests.support.waiting import until
from tests.support.wire.requests import topic as new_topic
from tests.support.wire_client import WireClient

DELETED = 50
"""The topics that are created and deleted at once."""

_LARGE = "large"
_BATCH_BYTES = 1_000_000
"""Size of the batch of each partition; 90 of them are below Kafka's limit of 100 MB for a request."""
_PRODUCE_VERSION = 9
_TIMEOUT_MS = 60_000

Play = Callable[[int, Event, Event, Any], None]
"""Does what is expensive at a port until the second event is set, after it has set the first one."""


def bystanders(routes: Routes, request: Request, settings: Settings, size: Size) -> list[Row]:
    """Measure the calls of one connection to the broker and of one to a gateway in turns, idle and beside others.

    Raises:
        MutationQuotaError: What is to be beside them failed.
    """
    loads: list[tuple[str, Play | None, Any]] = [
        ("nothing else", None, None),
        (f"two clients produce requests of {size.batches} MB", _produce, _large_request(routes.direct, size.batches)),
        (f"a client creates and deletes {DELETED} topics", _delete, None),
        (f"{size.leaving} clients leave at once", _leave, size.leaving),
    ]
    rows: list[Row] = []
    with StandIn(settings):
        for name, play, given in loads:
            with _played(play, routes.rewriting.port, given):
                direct, through = _calls(routes, request, size.calls)
            idle = rows[0] if rows else None
            row = {"beside": name, "direct_p50_ms": percentile(direct, 0.5), "direct_p99_ms": percentile(direct, 0.99)}
            row |= {"gateway_p50_ms": percentile(through, 0.5), "gateway_p99_ms": percentile(through, 0.99)}
            rows.append(row | {"of_idle": row["gateway_p99_ms"] / idle["gateway_p99_ms"] if idle else 1.0})
    return rows


def _large_request(direct: Route, batches: int) -> Request:
    """Return a Produce request with a batch of a megabyte for each partition of a topic, which is made."""
    where, sample = direct.ground, f"{_LARGE}-sample"
    where.admin.create_topics([NewTopic(_LARGE, batches)])[_LARGE].result()
    most = 2 * _BATCH_BYTES
    producer = Producer({**QUIET, "bootstrap.servers": f"{HOST}:{where.port}", "message.max.bytes": most})
    producer.produce(sample, bytes(_BATCH_BYTES), partition=0)
    producer.flush()
    batch = where.stored_records(sample, most)
    partitions = [{"index": number, "records": batch} for number in range(batches)]
    topics = [{"name": _LARGE, "partitionData": partitions}]
    message = {"transactionalId": None, "acks": 1, "timeoutMs": _TIMEOUT_MS, "topicData": topics}
    request = Request("produce", ApiKey.PRODUCE, _PRODUCE_VERSION, message)
    direct.check(request)
    return request


def _calls(routes: Routes, request: Request, count: int) -> tuple[list[float], list[float]]:
    """Return the times of calls to the broker and through the gateway [ms]."""
    times: tuple[list[float], list[float]] = [], []
    with routes.direct.connect() as direct, routes.rewriting.connect() as through:
        frames = [request.frame(client) for client in (direct, through)]
        for _ in range(count):
            for client, frame, own in zip((direct, through), frames, times, strict=True):
                own.append(client.seconds(frame) * 1e3)
    return times


@contextmanager
def _played(play: Play | None, port: int, given: Any) -> Iterator[None]:
    """Play in a process of its own inside the block, so that the calls do not share its interpreter."""
    if play is None:
        yield
        return
    context = multiprocessing.get_context("spawn")
    begun, ended = context.Event(), context.Event()
    process = context.Process(target=play, args=(port, begun, ended, given))
    process.start()
    try:
        until(lambda: begun.is_set() or process.exitcode is not None)
        yield
    finally:
        ended.set()
        process.join()
    if process.exitcode:
        raise MutationQuotaError(f"{play.__name__.strip('_')} failed; its error is above")


def _connect(port: int) -> WireClient:
    return WireClient((HOST, port), protocol(), "neighbour")


def _produce(port: int, begun: Event, ended: Event, request: Request) -> None:
    clients = [_connect(port), _connect(port)]
    frame = request.frame(clients[0])
    begun.set()
    while not ended.is_set():
        for client in clients:
            client.socket.sendall(frame)
        for client in clients:
            client.receive()


def _delete(port: int, begun: Event, ended: Event, _: None) -> None:
    names = [f"deleted-{number}" for number in range(DELETED)]
    with _connect(port) as client:
        requests = create("", 7, *(new_topic(name, 1) for name in names)), delete("", 6, *names)
        frames = [request.frame(client) for request in requests]
        begun.set()
        while not ended.is_set():
            for frame in frames:
                client.socket.sendall(frame)
                client.receive()


def _leave(port: int, begun: Event, ended: Event, count: int) -> None:
    while not ended.is_set():
        clients = [_connect(port) for _ in range(count)]
        begun.set()
        for client in clients:
            client.close()
