"""Everything together with a live view: a broker and tenants of its own, or a cluster that the settings name."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.live import Live

from jobs.broker import free_port, listening
from jobs.embedded import at, embedded_broker
from jobs.running import check, stop_between_batches, stop_signals
from jobs.service import start_queries
from jobs.session import spark_session
from jobs.tenants import Traffic, set_tenant_quotas, tenants
from jobs.view import View
from quota.decision import Decision
from quota.kafka.requests import AnswerReader, RequestWriter
from quota.kafka.topics import prepare_topics
from quota.settings import Settings

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
    embedded = "bootstrap_servers" not in settings.kafka.model_fields_set
    enforce = settings.enforce.model_copy(update={"with_audit": True})
    settings = settings.model_copy(update={"enforce": enforce})
    console = Console()
    with stop_signals() as stop, ExitStack() as stack:
        if embedded:
            console.print("starting a broker")
            port = free_port() if listening(_PORT) else _PORT
            settings = at(settings, stack.enter_context(embedded_broker(settings, port)).address)
            set_tenant_quotas(settings)
        else:
            prepare_topics(settings)
        console.print("starting Spark")
        spark = spark_session(settings, "mutation-quota run", _log_file(settings))
        stack.callback(spark.stop)
        reader = stack.enter_context(closing(AnswerReader(settings)))
        queries = start_queries(spark, settings)
        for query in queries:
            stack.callback(stop_between_batches, query)
        traffic = Traffic(RequestWriter(settings), tenants()) if embedded else None
        title = f"Kafka at {settings.kafka.bootstrap_servers}, tables in {settings.storage.root}/tables"
        view = View(title, settings.quota.window)
        _follow(view, reader, traffic, queries, stop)
        console.print("stopping")


def _follow(
    view: View,
    reader: AnswerReader,
    traffic: Traffic | None,
    queries: Sequence[StreamingQuery],
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
            check(queries)
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


def _log_file(settings: Settings) -> Path:
    root = settings.storage.root
    return Path(".data" if "://" in root else root) / "logs" / "spark.log"
