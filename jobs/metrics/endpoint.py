"""The health of a service, and its HTTP server of metrics for Prometheus and of health for probes."""

import errno
import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app, start_http_server
from prometheus_client.registry import Collector

from jobs.background import background
from jobs.metrics.collector import JobMetrics, MetricsSource
from quota.errors import BadInput
from quota.settings import Settings
from quota.settings.sections import MetricsSettings

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 10.0
_REQUEST_SECONDS = 10.0

HEALTH_PATH: Final = "/healthz"
"""The path of the liveness probe. A service that is not live has to be restarted."""

READINESS_PATH: Final = "/readyz"


STALLED_SECONDS: Final = 600.0
"""The time without progress after which a service is not healthy [s]. It is longer than what delays a healthy one: the
upkeep of the tables, and a request to a cluster that does not answer."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer to a probe, with its reason in one line."""

    ok: bool
    reason: str

    @property
    def status(self) -> int:
        """The HTTP status code: 200 or 503."""
        return 200 if self.ok else 503

    def body(self, service: str) -> bytes:
        """Return the answer of a service as a line of JSON."""
        reason = " ".join(self.reason.split())
        return f"{json.dumps({'service': service, 'ok': self.ok, 'reason': reason}, ensure_ascii=False)}\n".encode()


class Health(ABC):
    """The liveness and readiness of a service."""

    @abstractmethod
    def live(self) -> ProbeResult:
        """Return whether the service makes progress; never waits."""

    @abstractmethod
    def ready(self) -> ProbeResult:
        """Return whether the service can do its work; never waits."""


class ServiceEndpoint:
    """A server of `/healthz`, `/readyz` and `/metrics` that runs inside its block if a port is configured.

    It serves all three, so that a service needs only one port. Its own threads respond to probes with the observations
    of other threads, so probes never wait for Kafka, Spark or the metrics.
    """

    def __init__(self, settings: MetricsSettings, service: str, *, once: bool = False) -> None:
        """Listen before anything runs, so that a port in use is reported before Spark starts.

        With `once` nothing is served, as a running service may use the port.
        """
        self._service = service
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._health: Health | None = None
        self._before = STARTING
        self._server = _listen(settings, self._registry) if settings.port and not once else None
        if self._server is not None:
            server, _ = self._server
            server.set_app(self._app(make_wsgi_app(self._registry)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join(_JOIN_SECONDS)

    @contextmanager
    def following(
        self, settings: Settings, work: MetricsSource, health: Health, *, with_decisions: bool = False
    ) -> Iterator[None]:
        """Serve the metrics and the health of a service that runs inside the block; its topics must exist.

        Before the block the service is starting, and after the block it is stopping: it is live and not ready. A
        service `with_decisions` also reports the metrics of decisions.
        """
        if self._server is None:
            yield
            return
        with ExitStack() as stack:
            metrics = JobMetrics(settings, work, with_decisions=with_decisions)
            self._registry.register(metrics)
            stack.callback(self._registry.unregister, metrics)
            stack.enter_context(background(metrics.follow, "metrics", _JOIN_SECONDS))
            self._health = health
            try:
                yield
            finally:
                self._health, self._before = None, STOPPING

    @contextmanager
    def waiting(self, collector: Collector, health: Health) -> Iterator[None]:
        """Serve the metrics and the health of a service that waits inside the block, and only then begins its work."""
        self._registry.register(collector)
        self._health = health
        try:
            yield
        finally:
            self._health = None
            self._registry.unregister(collector)

    def _app(self, metrics: WSGIApplication) -> WSGIApplication:
        def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            health = self._health
            match environ["PATH_INFO"]:
                case path if path == HEALTH_PATH:
                    answer = health.live() if health else ProbeResult(True, self._before)
                case path if path == READINESS_PATH:
                    answer = health.ready() if health else ProbeResult(False, self._before)
                case _:
                    return metrics(environ, start_response)
            status = HTTPStatus(answer.status)
            start_response(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
            return [answer.body(self._service)]

        return app


class _RequestHandler(WSGIRequestHandler):
    """Handles the one request of a connection, on a thread of its own, without a line in the log.

    A client that sends or reads nothing for `timeout` [s] is disconnected, so that it does not occupy the thread.
    """

    timeout = _REQUEST_SECONDS

    def handle(self) -> None:
        with suppress(TimeoutError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the server names it
        del format, args


def _listen(settings: MetricsSettings, registry: CollectorRegistry) -> tuple[WSGIServer, threading.Thread]:
    address = f"{settings.address}:{settings.port}"
    try:
        server = start_http_server(settings.port, settings.address, registry)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInput(
                f"metrics.port: {address} is in use; each job needs its own port, or 0 for no metrics and probes"
            ) from None
        raise BadInput(f"metrics.address: cannot listen on {address}: {error.strerror}") from None
    server[0].RequestHandlerClass = _RequestHandler  # that of the library waits without end
    _log.info("serving %s, %s, /metrics at http://%s", HEALTH_PATH, READINESS_PATH, address)
    return server


STARTING: Final = "it is starting"
STOPPING: Final = "it is stopping"
