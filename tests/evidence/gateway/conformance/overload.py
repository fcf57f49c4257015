"""Clients in debt that ignore their throttle times: they connect again, at the broker or at the gateway.

Their quota protects the controller only if the controller does not place the partitions of their requests, and limits
them only if a new connection does not end their debt.
"""

import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

from quota.errors import MutationQuotaError
from tests.evidence.gateway.conformance.sides import NUMBERED, Side, Sides
from tests.evidence.gateway.ground import password_of
from tests.evidence.gateway.requests import Request, create, grow
from tests.support.wire.requests import topic as new_topic
from tests.support.wire_client import Message

_CONNECTIONS = 8
_TOPICS = 10
_DEBT_PARTITIONS = 303
"""Puts the client into debt for ten minutes."""
_PAUSE_SECONDS = 0.1
_LOAD_PAUSE_SECONDS = 0.2
"""Between two connections of the client in debt: a broker keeps the descriptor of each until its mute ends."""
_USER = NUMBERED - 20
"""The user of each side who is in debt; no program takes it, nor those before it."""
_CLIENTS = (("strict: CreateTopics v7", 7, _USER - 1), ("permissive: CreateTopics v4", 4, _USER - 2))
_PARTITIONS = 10


def measure_beside_debt(pair: Sides, seconds: float) -> list[dict[str, Any]]:
    """Return a row for each kind of load: the creations beside it on each side, in ms, and their ratio.

    Each is measured for a number of seconds.
    """
    pair.create_topics({f"load-{number}": 1 for number in range(_TOPICS)})
    for side in pair.both:
        _send(pair, side, create("debt", 7, new_topic(side.topic("load-debt"), _DEBT_PARTITIONS)))
    idle = _creations(pair, pair.direct, None, seconds)
    rows = []
    for load, partitions, validate_only in (
        ("by 100,000 partitions each", 100_001, False),
        ("by 100,000 partitions each, `validate_only`", 100_001, True),
        ("by 1,000 partitions each", 1001, False),
        ("by 1,000 partitions each, `validate_only`", 1001, True),
    ):
        request = [(f"load-{number}", partitions) for number in range(_TOPICS)]
        took = {}
        for side in pair.both:
            growth = grow(load, 3, *((side.topic(name), size) for name, size in request))
            took[side.name] = _creations(pair, side, growth.with_fields(validateOnly=validate_only), seconds)
        broker, gateway = took[pair.direct.name], took[pair.gateway.name]
        rows.append(
            {
                "ten topics grow": load,
                "idle_ms": statistics.median(idle),
                "broker_ms": statistics.median(broker),
                "gateway_ms": statistics.median(gateway),
                "ratio": statistics.median(gateway) / statistics.median(broker),
                "broker_max_ms": max(broker),
                "gateway_max_ms": max(gateway),
            }
        )
    return rows


def _creations(pair: Sides, side: Side, load: Request | None, seconds: float) -> Sequence[float]:
    """Return the times of an honest client's creations beside a load on a side [ms]."""
    stop, numbers, times = threading.Event(), count(), []

    def send_load() -> None:
        while load is not None and not stop.is_set():
            with suppress(OSError, MutationQuotaError):
                _send(pair, side, load)
            time.sleep(_LOAD_PAUSE_SECONDS)

    with ThreadPoolExecutor(_CONNECTIONS) as pool, pair.ground.connect(pair.ground.port) as honest:
        for _ in range(_CONNECTIONS):
            pool.submit(send_load)
        try:
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at or not times:
                began = time.monotonic()
                name = f"honest-{time.time_ns()}-{next(numbers)}"
                (result,) = create("honest", 7, new_topic(name, 1)).call(honest)["topics"]
                times.append((time.monotonic() - began) * 1000)
                if result["errorCode"]:
                    raise MutationQuotaError(f"an honest client's creation fails: {result}")
                time.sleep(_PAUSE_SECONDS)
        finally:
            stop.set()
    pair.check()
    return times


def measure_reconnecting(pair: Sides, seconds: float) -> list[dict[str, Any]]:
    """Return a row for each kind of client: the topics that it creates on each side, each on a new connection."""
    with ThreadPoolExecutor(2 * len(_CLIENTS)) as pool:
        made = [
            (name, [pool.submit(_create_topics, pair, side, version, user, seconds) for side in pair.both])
            for name, version, user in _CLIENTS
        ]
        rows = [(name, *(future.result() for future in futures)) for name, futures in made]
    pair.check()
    return [{"client": name, "broker": broker, "gateway": gateway} for name, broker, gateway in rows]


def _create_topics(pair: Sides, side: Side, version: int, user: int, seconds: float) -> int:
    """Create topics for a time, and return their number."""
    made, ends_at = 0, time.monotonic() + seconds
    for number in count():
        if number and time.monotonic() > ends_at:
            break
        topic = new_topic(side.topic(f"anew-{version}-{number}"), _PARTITIONS)
        (result,) = _send(pair, side, create("anew", version, topic), user)["topics"]
        made += not result["errorCode"]
        time.sleep(_PAUSE_SECONDS)
    return made


def _send(pair: Sides, side: Side, request: Request, number: int = _USER) -> Message:
    """Send a request of a client in debt, on a connection of its own, and return the response."""
    user = side.user(number)
    with pair.ground.connect(side.port) as client:
        client.authenticate(user, password_of(user))
        return request.call(client)
