"""An honest client's creations at the broker beside the growths of a client in debt, at the broker or at the gateway.

The client in debt ignores its throttle times: it connects again. Its quota protects the controller only if the
controller does not place the partitions of its requests.
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

_CONNECTIONS = 8
_TOPICS = 10
_DEBT_PARTITIONS = 303
"""Puts the client into debt for ten minutes."""
_PAUSE_SECONDS = 0.1
_LOAD_PAUSE_SECONDS = 0.2
"""Between two connections of the client in debt: a broker keeps the descriptor of each until its mute ends."""
_USER = NUMBERED - 20
"""The user of each side who is in debt; no program takes it."""


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


def _send(pair: Sides, side: Side, request: Request) -> None:
    """Send a request of the client in debt, on a connection of its own."""
    user = side.user(_USER)
    with pair.ground.connect(side.port) as client:
        client.authenticate(user, password_of(user))
        request.call(client)
