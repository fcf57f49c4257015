"""Metadata of all topics of a large cluster: an answer of hundreds of kilobytes, with the brokers at its beginning."""

import time
from dataclasses import dataclass
from statistics import median

from quota.errors import MutationQuotaError
from quota.wire.api_keys import ApiKey
from tests.evidence.gateway.cost.ground import Ground

PARTITIONS = 12

_VERSION = 12
_CREATE_VERSION = 7
_AT_ONCE = 50
_TIMEOUT_MS = 120_000
_SEEN_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Listing:
    """A call for all topics over one route: the bytes of its answer, and medians in seconds."""

    bytes: int
    seconds: float
    cpu_seconds: float | None
    """Processor time of the gateway for one call; None for a direct connection."""


def make_topics(ground: Ground, count: int) -> None:
    """Create topics of `PARTITIONS` partitions directly, and wait until the broker lists them."""
    with ground.connect(ground.direct) as client:
        for first in range(0, count, _AT_ONCE):
            topics = [
                {"name": f"listed-{number}", "numPartitions": PARTITIONS, "replicationFactor": 1}
                for number in range(first, min(first + _AT_ONCE, count))
            ]
            client.call(ApiKey.CREATE_TOPICS, _CREATE_VERSION, {"topics": topics, "timeoutMs": _TIMEOUT_MS})
        deadline = time.monotonic() + _SEEN_SECONDS
        while time.monotonic() < deadline:
            topics = client.call(ApiKey.METADATA, _VERSION, {"topics": None})["topics"]
            if sum(each["name"].startswith("listed-") for each in topics) == count:
                return
            time.sleep(0.2)
    raise MutationQuotaError(f"the broker does not list {count} topics")


def listings(ground: Ground, rounds: int) -> dict[str, Listing]:
    """Measure a call for all topics over each route in turns, and return the results by route."""
    clients = {route: ground.connect(port) for route, port in ground.routes.items()}
    times: dict[str, list[float]] = {route: [] for route in clients}
    cpu: dict[str, list[float]] = {route: [] for route in clients}
    sizes: dict[str, int] = {}
    for _ in range(rounds):
        for route, client in clients.items():
            gateway = ground.gateways.get(route)
            frame = client.request(ApiKey.METADATA, _VERSION, {"topics": None})
            before = gateway.cpu_seconds() if gateway else 0.0
            begun = time.perf_counter()
            client.socket.sendall(frame)
            sizes[route] = len(client.receive())
            times[route].append(time.perf_counter() - begun)
            if gateway:
                cpu[route].append(gateway.cpu_seconds() - before)
    for client in clients.values():
        client.close()
    return {
        route: Listing(sizes[route], median(each), median(cpu[route]) if cpu[route] else None)
        for route, each in times.items()
    }
