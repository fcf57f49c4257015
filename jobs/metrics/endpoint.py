"""The endpoint that Prometheus reads a job's metrics from."""

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

from jobs.metrics.applier import ApplierMetrics
from jobs.metrics.collector import JobMetrics
from jobs.metrics.queries import QueryMetrics
from quota.errors import BadInput
from quota.kafka.applier.stats import ApplierStats
from quota.settings.jobs import MetricsSettings
from quota.settings.model import Settings

_log = logging.getLogger(__name__)

_END_SECONDS = 10.0

Watch = Callable[[Sequence[StreamingQuery]], None]


class MetricsEndpoint:
    """Serves inside its block, if the settings name a port; a job that it follows is what it tells of."""

    def __init__(self, settings: MetricsSettings, *, once: bool = False) -> None:
        """Listen, before there is anything to tell: a port that is taken is told before Spark is started.

        Args:
            settings: where.
            once: the job ends by itself, and serves nothing: the port is that of a job that stays.

        Raises:
            BadInput: it cannot listen there.
        """
        self._registry = CollectorRegistry()
        self._server = _listening(settings, self._registry) if settings.port and not once else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join(_END_SECONDS)

    @contextmanager
    def following(self, settings: Settings, *, decides: bool) -> Iterator[Watch]:
        """Tell of a job while it runs inside the block, which begins when its topics are there.

        Args:
            settings: of the job.
            decides: whether it is the job that decides.

        Yields:
            What is to be told its queries once they run.
        """
        if self._server is None:
            yield lambda _: None
            return
        queries = QueryMetrics(settings)
        with self._telling(JobMetrics(settings, queries, decides=decides)):
            yield queries.watch

    @contextmanager
    def following_applier(self, settings: Settings, tally: ApplierStats) -> Iterator[None]:
        """Tell of an applier while it counts what it does inside the block."""
        if self._server is None:
            yield
            return
        with self._telling(JobMetrics(settings, ApplierMetrics(settings, tally), decides=False)):
            yield

    @contextmanager
    def _telling(self, metrics: JobMetrics) -> Iterator[None]:
        self._registry.register(metrics)
        stop = threading.Event()
        thread = threading.Thread(target=metrics.follow, args=(stop,), name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_END_SECONDS)
            self._registry.unregister(metrics)


def _listening(settings: MetricsSettings, registry: CollectorRegistry) -> tuple[WSGIServer, threading.Thread]:
    where = f"{settings.address}:{settings.port}"
    try:
        server = start_http_server(settings.port, settings.address, registry)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInput(
                f"metrics.port: {where} is in use; each job needs a port of its own, or 0 for no metrics"
            ) from None
        raise BadInput(f"metrics.address: {where} cannot be listened on: {error.strerror}") from None
    _log.info("metrics: http://%s/metrics", where)
    return server
