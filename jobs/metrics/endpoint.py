"""The HTTP endpoint of a job: its metrics for Prometheus, and its health for probes."""

import errno
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server

from jobs.background import background
from jobs.metrics.collector import JobMetrics, Work
from quota.errors import BadInput
from quota.settings import Settings
from quota.settings.sections import MetricsSettings

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 10.0


class MetricsEndpoint:
    """A server that runs inside its block if the settings name a port; it serves the metrics of the job it follows.

    `/healthy` and `/ready` answer 200 for yes and 503 for no: whether the job goes on, and whether it does its work.
    """

    def __init__(self, settings: MetricsSettings, *, once: bool = False) -> None:
        """Listen, although there are no metrics yet: a port in use is reported before Spark starts.

        Args:
            settings: the address and the port.
            once: whether the job ends by itself; it serves nothing then, because the port may be that of a running job.

        Raises:
            BadInput: the server cannot listen there.
        """
        self._registry = CollectorRegistry()
        self._work: Work | None = None
        self._server = _listen(settings, self._registry) if settings.port and not once else None
        if self._server is not None:
            server, _ = self._server
            server.set_app(self._with_probes(make_wsgi_app(self._registry)))

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
    def following(self, settings: Settings, work: Work, *, decides: bool = False) -> Iterator[None]:
        """Serve the metrics of a job that runs inside the block; its topics must exist.

        Args:
            settings: the settings of the job.
            work: what the job does.
            decides: whether it decides requests, and so reports the metrics of decisions.
        """
        if self._server is None:
            yield
            return
        metrics, self._work = JobMetrics(settings, work, decides=decides), work
        self._registry.register(metrics)
        try:
            with background(metrics.follow, "metrics", _JOIN_SECONDS):
                yield
        finally:
            self._work = None
            self._registry.unregister(metrics)

    def _with_probes(self, metrics: WSGIApplication) -> WSGIApplication:
        def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            work = self._work
            match environ["PATH_INFO"]:
                case "/healthy":
                    answer = work is None or work.is_alive  # before it is followed, a job starts
                case "/ready":
                    answer = work is not None and work.is_ready
                case _:
                    return metrics(environ, start_response)
            start_response("200 OK" if answer else "503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"yes\n" if answer else b"no\n"]

        return app


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
