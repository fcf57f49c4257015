"""The HTTP endpoint of a job's metrics, for Prometheus."""

import errno
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from pyspark.sql.streaming.query import StreamingQuery

from jobs.background import background
from jobs.metrics.applier import ApplierMetrics
from jobs.metrics.collector import JobMetrics
from jobs.metrics.queries import QueryMetrics
from quota.errors import BadInput
from quota.kafka.applier.stats import ApplierStats
from quota.settings import Settings
from quota.settings.sections import MetricsSettings

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 10.0

Watch = Callable[[Sequence[StreamingQuery]], None]


class MetricsEndpoint:
    """A server that runs inside its block if the settings name a port; it serves the metrics of the job it follows."""

    def __init__(self, settings: MetricsSettings, *, once: bool = False) -> None:
        """Listen, although there are no metrics yet: a port in use is reported before Spark starts.

        Args:
            settings: the address and the port.
            once: whether the job ends by itself; it serves nothing then, because the port may be that of a running job.

        Raises:
            BadInput: the server cannot listen there.
        """
        self._registry = CollectorRegistry()
        self._server = _listen(settings, self._registry) if settings.port and not once else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join(_JOIN_SECONDS)

    @contextmanager
    def following(self, settings: Settings, *, decides: bool) -> Iterator[Watch]:
        """Serve the metrics of a job that runs inside the block; its topics must exist.

        Args:
            settings: the settings of the job.
            decides: whether the job decides requests.

        Yields:
            A function to call with the queries once they run.
        """
        if self._server is None:
            yield lambda _: None
            return
        queries = QueryMetrics(settings)
        with self._serving(JobMetrics(settings, queries, decides=decides)):
            yield queries.watch

    @contextmanager
    def following_applier(self, settings: Settings, stats: ApplierStats) -> Iterator[None]:
        """Serve the metrics of an applier that runs inside the block."""
        if self._server is None:
            yield
            return
        with self._serving(JobMetrics(settings, ApplierMetrics(settings, stats), decides=False)):
            yield

    @contextmanager
    def _serving(self, metrics: JobMetrics) -> Iterator[None]:
        self._registry.register(metrics)
        try:
            with background(metrics.follow, "metrics", _JOIN_SECONDS):
                yield
        finally:
            self._registry.unregister(metrics)


def _listen(settings: MetricsSettings, registry: CollectorRegistry) -> tuple[WSGIServer, threading.Thread]:
    address = f"{settings.address}:{settings.port}"
    try:
        server = start_http_server(settings.port, settings.address, registry)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInput(
                f"metrics.port: {address} is in use; each job needs a port of its own, or 0 for no metrics"
            ) from None
        raise BadInput(f"metrics.address: {address} cannot be listened on: {error.strerror}") from None
    _log.info("metrics: http://%s/metrics", address)
    return server
