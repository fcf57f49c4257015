"""Everything together with a live view: a broker and tenants of its own, or a cluster that the settings name."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

from rich.console import Console
from rich.live import Live

from jobs.metrics.endpoint import MetricsEndpoint
from jobs.sandbox.broker import at, embedded_broker, free_port, listening
from jobs.sandbox.traffic import Traffic, set_tenant_quotas, simulated_clients
from jobs.sandbox.view import View
from jobs.services.enforce import looking_after, start_queries
from jobs.services.prepared import prepared_session
from jobs.spark.queries import check_queries, stop_after_batch, stop_signals
from quota.callbacks.loading import check_callbacks
from quota.kafka.requests import AnswerReader, RequestWriter
from quota.kafka.topics.user_topics import UserTopics
from quota.records.decision import Decision
from quota.settings.model import Settings
from quota.settings.storage import local_folder

_PORT = 9092
_STEP_SECONDS = 0.02
_DRAWS_PER_SECOND = 4
_LINE_SECONDS = 5.0


def run_live(settings: Settings) -> None:
    """Run until Ctrl-C.

    Where no cluster is named, one is started and tenants send requests to it.

    Raises:
        MutationQuotaError: a query failed.
    """
    check_callbacks(settings.quota.callbacks)
    embedded = "bootstrap_servers" not in settings.kafka.model_fields_set
    enforce = settings.enforce.model_copy(update={"with_audit": True})
    settings = settings.model_copy(update={"enforce": enforce})
    with stop_signals() as stop, MetricsEndpoint(settings.metrics) as endpoint, ExitStack() as stack:
        traffic = None
        watched: list[Callable[[], None]] = []
        if embedded:
            print("starting a broker", flush=True)
            port = free_port() if listening(_PORT) else _PORT
            broker = stack.enter_context(embedded_broker(settings, port))
            watched.append(broker.check)
            settings = at(settings, broker.address)
            set_tenant_quotas(settings)
            if settings.topics.by_users is not None:
                UserTopics(settings).prepare([tenant.user for tenant in simulated_clients()])
            traffic = Traffic(RequestWriter(settings), simulated_clients())
        print("starting Spark", flush=True)
        log = local_folder(settings, "logs") / "spark.log"
        spark = stack.enter_context(prepared_session(settings, "run", log))
        reader = stack.enter_context(closing(AnswerReader(settings)))
        watch = stack.enter_context(endpoint.following(settings, decides=True))
        queries = start_queries(spark, settings)
        watch(queries)
        stack.callback(stop_after_batch, queries)
        watched += [lambda: check_queries(queries), looking_after(spark, settings, queries)]
        title = f"Kafka at {settings.kafka.bootstrap_servers}, tables in {settings.storage.root}/tables"
        _follow(View(title, settings.quota.window), reader, traffic, watched, stop)
        print("stopping", flush=True)


def _follow(
    view: View,
    reader: AnswerReader,
    traffic: Traffic | None,
    watched: Sequence[Callable[[], None]],
    stop: threading.Event,
) -> None:
    """Send, hear and draw until `stop` is set; a line now and then where there is no terminal."""
    console = Console()
    with ExitStack() as stack:
        show: Callable[[float], None]
        if console.is_terminal:
            live = stack.enter_context(Live(console=console, auto_refresh=False, screen=False))
            every, show = 1 / _DRAWS_PER_SECOND, lambda now: live.update(view.draw(now), refresh=True)
        else:
            every, show = _LINE_SECONDS, lambda now: print(view.line(now), flush=True)
        shown = 0.0
        while not stop.wait(_STEP_SECONDS):
            for look in watched:
                look()
            now = time.time()
            if traffic is not None:
                traffic.send_due(now)
            for heard in reader.read():
                view.hear(heard, now)
                if traffic is not None and isinstance(heard.answer, Decision):
                    traffic.hear(heard.answer, now)
            if now - shown >= every:
                show(now)
                shown = now
