"""Services that are a loop, with their metrics and health: the applier, the gateway, `observe follow`, `quotas push`.

The health of the dashboard, which serves no metrics, is of the same kind.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from prometheus_client.metrics_core import Metric as Family

from jobs.background import background
from jobs.metrics.batches import FinishedBatch, QueryView
from jobs.metrics.collector import MetricsSource
from jobs.metrics.endpoint import STALLED_SECONDS, STARTING, STOPPING, Health, ProbeResult, ServiceEndpoint
from jobs.metrics.families import STARTED, applier_families, family, query_families
from jobs.query_names import APPLIER
from quota.gateway.stats import GatewayStats
from quota.kafka.applier import ApplierStats
from quota.kafka.reading import Partition
from quota.kafka.timing import Every
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings

_log = logging.getLogger(__name__)

_ENDS_SECONDS = 5.0
_LOG_SECONDS = 10.0

_MAX_EVENT_LOOP_SECONDS = 10.0
"""A gateway's event loop runs five times per second; after this time without a run it counts as hanging [s]."""


class LoopMetrics(MetricsSource):
    """The start time of a service, and the metrics of its counts, which are always up to date."""

    def __init__(self, name: str, read: Callable[[], Iterator[Family]]) -> None:
        """Start now; `read` returns the metrics of the counts, and `name` is the label `query` of the start time."""
        self._name = name
        self._read = read
        self._started_at = time.time()

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        yield family(STARTED, {self._name: self._started_at})
        yield from self._read()


class ApplierMetrics(MetricsSource):
    """The results of an applier, and its batches and its lag in the decisions topic as those of a query."""

    def __init__(self, settings: Settings, stats: ApplierStats) -> None:
        self._stats = stats
        self._started_at = time.time()
        self._topics = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._ends: Mapping[Partition, int] = {}
        self._fetch_ends = Every(_ENDS_SECONDS)

    def poll(self) -> None:
        """Fetch the log end offsets of the decisions topic if they are due."""
        if self._stats.positions and self._fetch_ends.is_due():
            self._ends = self._topics.offsets(self._stats.positions.keys())

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        stats = self._stats
        last = FinishedBatch(
            batch=stats.batches - 1,
            ended_at=stats.ended_at or self._started_at,
            phases={},
            positions=stats.positions,
            state_rows=None,
            state_bytes=None,
        )
        yield from query_families({APPLIER: QueryView(self._started_at, 0.0, last, self._ends)})
        yield from applier_families(stats)


class Loop(Protocol):
    """A loop that says when it last ran."""

    looped_at: float
    """The time when it last ran, on the monotonic clock [s]; 0 before the first time."""


class LoopHealth(Health):
    """Checks the loop of a service."""

    def __init__(
        self,
        loop: Loop,
        missing: Callable[[], str] = lambda: "",
        *,
        limited: Callable[[], str] = lambda: "",
        limit_seconds: float = STALLED_SECONDS,
    ) -> None:
        """Start checking; one run of the loop may take `limit_seconds`.

        `missing` returns what the service needs and does not have, and `limited` what is missing although it is ready;
        each is empty otherwise.
        """
        self._loop = loop
        self._limit_seconds = limit_seconds
        self._missing = missing
        self._limited = limited

    def live(self) -> ProbeResult:
        """Return whether the loop makes progress."""
        if not self._loop.looped_at:
            return ProbeResult(True, STARTING)
        silence = time.monotonic() - self._loop.looped_at
        if silence <= self._limit_seconds:
            return ProbeResult(True, "it makes progress")
        limit = f"the limit is {self._limit_seconds:.0f} s"
        return ProbeResult(False, f"it has made no progress for {silence:.0f} s; {limit}")

    def ready(self) -> ProbeResult:
        """Return whether the loop makes progress and nothing is missing."""
        alive = self.live()
        if not alive.ok:
            return alive
        missing = self._missing() if self._loop.looped_at else STARTING
        return ProbeResult(not missing, missing or "; ".join(filter(None, ("it is ready", self._limited()))))


def gateway_health(stats: GatewayStats) -> LoopHealth:
    """Return the health of a gateway: it is ready while it accepts connections and a broker responds.

    It is ready without decisions, too, because it still forwards everything except mutations.
    """

    def missing() -> str:
        if not stats.is_serving:
            return STOPPING
        failures = [*stats.broker_failures.values()]
        return f"no broker responds: {'; '.join(failures)}" if failures and all(failures) else ""

    def limited() -> str:
        down = [f"{failure} (port {port})" for port, failure in sorted(stats.broker_failures.copy().items()) if failure]
        return f"brokers that do not respond: {'; '.join(down)}" if down else ""

    return LoopHealth(stats, missing, limited=limited, limit_seconds=_MAX_EVENT_LOOP_SECONDS)


@contextmanager
def counted(
    endpoint: ServiceEndpoint, settings: Settings, stats: object, metrics: MetricsSource, health: LoopHealth
) -> Iterator[None]:
    """Serve the metrics and the health of a loop that runs inside the block, and log its counts (`str(stats)`).

    They are logged every 10 s if they have changed, and at the end; if it fails, only if anything was counted.
    """
    first, failed = str(stats), True
    try:
        with (
            background(lambda end: _log_changes(stats, end), "progress"),
            endpoint.following(settings, metrics, health),
        ):
            yield
        failed = False
    finally:
        if not failed or str(stats) != first:
            _log.info("%s", stats)


def _log_changes(stats: object, end: threading.Event) -> None:
    logged = str(stats)
    while not end.wait(_LOG_SECONDS):
        if logged != str(stats):
            logged = str(stats)
            _log.info("%s", logged)
