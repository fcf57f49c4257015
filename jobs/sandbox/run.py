"""Runs enforce, audit and the dashboard, on an embedded broker with simulated tenants or on a configured cluster."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.audit.upkeep_schedule import stopping_upkeep
from jobs.background import background
from jobs.dashboard.server import serve_dashboard
from jobs.metrics.endpoint import ServiceEndpoint
from jobs.metrics.loops import counted
from jobs.metrics.queries import QueryMetrics, QueryObserver
from jobs.metrics.totals import DecisionTotals
from jobs.sandbox.broker import (
    HOST,
    Broker,
    embedded_broker,
    free_port,
    is_listening,
    wait_until,
    with_plaintext_cluster,
)
from jobs.sandbox.traffic import (
    KafkaTopics,
    Librdkafka,
    Traffic,
    set_tenant_quotas,
    simulated_clients,
    unmodified_clients,
)
from jobs.services.gateway import serve_gateway
from jobs.services.spark import claimed_deployment
from jobs.services.streaming import observing, start_queries
from jobs.signals import stop_signals
from jobs.spark.queries import check_queries, stop_after_batch
from jobs.spark.session import jvm_pid, kill_jvm
from jobs.storage.files import DeploymentSession
from quota.callbacks.instance import check_callbacks
from quota.errors import ClusterError
from quota.kafka.requests_and_answers import AnswerReader, RequestWriter
from quota.kafka.timing import Every
from quota.kafka.topics.preparation import UserTopics
from quota.records.decision import Decision
from quota.records.request import ANONYMOUS
from quota.settings import Settings
from quota.text import plural

_PORT = 9092
_POLL_SECONDS = 0.02
_OBSERVE_SECONDS = 1.0
_LINE_INTERVAL_SECONDS = 5.0
_SILENT_SECONDS = 10.0
"""The time after which a line says that there are no answers, as while a broker or Spark hangs."""
_STOP_SECONDS = 2.5
"""The time in which everything may stop after Ctrl-C, before Spark is killed, which its checkpoint survives."""
_FIRST_SECONDS = 20
"""The usual time from the start of Spark to the first decisions, on two cores with nothing else to do."""
_LITTLE_HEAP = {
    "spark.driver.defaultJavaOptions": "-XX:+UseSerialGC -Xms96m -Xmn64m -XX:MinHeapFreeRatio=30 "
    "-XX:MaxHeapFreeRatio=50"
}
"""Properties of a JVM on somebody's own machine: its heap stays near what is alive, and can still grow.

G1 returns memory only after marking, which does not happen while there are requests. Services keep G1.
"""


def run_everything(settings: Settings) -> None:
    """Run until Ctrl-C.

    The dashboard is served on the port of the settings, or on any free one if that is in use. If the settings name no
    cluster, an embedded broker and a gateway are started. Simulated tenants send requests to the broker, and unmodified
    clients use the gateway.
    """
    check_callbacks(settings.quota.callbacks)
    enforce = settings.enforce.model_copy(update={"with_audit": True})
    spark = settings.spark.model_copy(update={"conf": _LITTLE_HEAP | settings.spark.conf})
    settings = settings.model_copy(update={"enforce": enforce, "spark": spark})
    servers = settings.kafka.bootstrap_servers
    with ServiceEndpoint(settings.metrics, "run") as endpoint:
        if "bootstrap_servers" in settings.kafka.model_fields_set:
            print(f"no broker is started, since kafka.bootstrap_servers is set: {servers}", flush=True)
            _run(settings, endpoint)
            return
        print("starting a broker", flush=True)
        with embedded_broker(settings, _choose_port()) as broker:
            settings = with_plaintext_cluster(settings, broker.address)
            set_tenant_quotas(settings)
            if settings.topics.user_topic_prefix is not None:
                UserTopics(settings).prepare([ANONYMOUS, *(tenant.user for tenant in simulated_clients())])
            _run(settings, endpoint, broker)


def _run(settings: Settings, endpoint: ServiceEndpoint, broker: Broker | None = None) -> None:
    """Run the queries, the dashboard and, on an embedded broker, the gateway and the clients, until Ctrl-C."""
    traffic, totals = None, DecisionTotals(settings.quota.window, max_tenants=0)
    where = f"Kafka at {settings.kafka.bootstrap_servers}, tables in {settings.storage.root}/tables"
    log = settings.storage.local_folder("logs") / "spark.log"
    with interrupted_after(_STOP_SECONDS) as limit_stop, serve_dashboard(settings, any_port=True) as page:
        print(f"dashboard at {page}", flush=True)
        print(f"starting Spark, first decisions in about {_FIRST_SECONDS} s", flush=True)
        with (
            claimed_deployment(settings, "run", log) as session,
            closing(AnswerReader(settings)) as reader,
            running_queries(session, endpoint) as check,
            ExitStack() as clients,
        ):
            polled = [check]
            if broker is not None:
                traffic = Traffic(RequestWriter(settings), simulated_clients())
                gateway, check_gateway = clients.enter_context(embedded_gateway(settings))
                where = f"gateway at {gateway}, {where}"
                polled += [partial(_check_broker, broker, session.spark, jvm_pid(session.spark)), check_gateway]
                for client in unmodified_clients(settings, gateway):
                    clients.enter_context(closing(client))
                    polled.append(partial(poll_client, client, totals))
            print(f"dashboard at {page}, {where}; Ctrl-C stops everything", flush=True)
            with stop_signals() as stop:
                _follow(reader, totals, traffic, polled, stop)
            print("stopping", flush=True)
            limit_stop()


@contextmanager
def interrupted_after(seconds: float) -> Iterator[Callable[[], None]]:
    """Yield a function after whose call the block has so much time to end: then it is interrupted as by Ctrl-C.

    That kills Spark's JVM, and is no error.
    """
    block, is_late = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        is_late.set()
        signal.pthread_kill(block, signal.SIGINT)

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    try:
        yield timer.start
    except KeyboardInterrupt:
        if not is_late.is_set():
            raise
    finally:
        timer.cancel()


@contextmanager
def running_queries(session: DeploymentSession, endpoint: ServiceEndpoint) -> Iterator[Callable[[], None]]:
    """Run enforce and audit inside the block, and end upkeep at once when it ends; yield a check to call all the time.

    The check raises the failure of a query.
    """
    observer, stopping = QueryObserver(session.settings), threading.Event()
    metrics = QueryMetrics(session.settings, observer)
    with endpoint.following(session.settings, metrics, observer, with_decisions=True), stopping_upkeep(stopping):
        queries = start_queries(session, metrics.upkeep_failures)
        observer.watch(session.spark, queries, stopping)
        observe, is_time = observing(session, observer), Every(_OBSERVE_SECONDS)

        def check() -> None:
            if is_time.is_due():
                check_queries(queries)
                observe()

        try:
            yield check
        finally:
            stopping.set()
            with suppress(Py4JError, PySparkException, OSError):  # the JVM has exited; why is known already
                stop_after_batch(queries)


def _choose_port() -> int:
    """Return Kafka's port; if another program uses it, any free one, which other commands must be told."""
    if not is_listening(_PORT):
        return _PORT
    port = free_port()
    print(f"port {_PORT} is in use; before you use other commands:", flush=True)
    print(f"  export KAFKA_BOOTSTRAP_SERVERS={HOST}:{port}", flush=True)
    return port


def _check_broker(broker: Broker, spark: SparkSession, jvm: int) -> None:
    """Check that the broker still runs; without it, Spark is killed, which would try to reach it for minutes."""
    try:
        broker.check()
    except ClusterError:
        kill_jvm(spark, jvm)
        raise


def poll_client(client: KafkaTopics | Librdkafka, totals: DecisionTotals) -> None:
    """Poll a client once there are decisions, and print its output."""
    if totals.decisions and (output := client.poll(time.time())):
        print(f"{client.name} {output}", flush=True)


def _follow(
    reader: AnswerReader,
    totals: DecisionTotals,
    traffic: Traffic | None,
    polled: Sequence[Callable[[], None]],
    stop: threading.Event,
) -> None:
    """Send requests, read answers, and print a line of totals every 5 s, until `stop` is set."""
    interval, begin = Every(_LINE_INTERVAL_SECONDS), time.time()
    answered_at = begin
    while not stop.wait(_POLL_SECONDS):
        for poll in polled:
            poll()
        now = time.time()
        if traffic is not None:
            traffic.send_due(now)
        for received in reader.read():
            totals.record(received.answer, received.at)
            answered_at = now
            if traffic is not None and isinstance(received.answer, Decision):
                traffic.on_decision(received.answer, now)
        if interval.is_due():
            is_starting = traffic is not None and not totals.decisions
            print(starting_line(now - begin) if is_starting else totals_line(totals, now - answered_at), flush=True)


def starting_line(seconds: float) -> str:
    """Return the line before the first decision, this time after the clients began to send requests."""
    return (
        f"starting: no decision for {seconds:.0f} s; the first ones come about {_FIRST_SECONDS} s after Spark's start, "
        "or a minute and more on a busy machine"
    )


def totals_line(totals: DecisionTotals, silent_seconds: float = 0) -> str:
    """Return the totals of all answers in one line, and for how long there has been none."""
    mutations = f"{totals.counts.mutations_admitted:,} admitted, {totals.counts.mutations_rejected:,} rejected"
    decisions = plural(totals.decisions.total(), "decision")
    silent = f"; none for {silent_seconds:.0f} s" if totals.decisions and silent_seconds > _SILENT_SECONDS else ""
    return f"{decisions}; mutations: {mutations}; dead letters: {totals.dead_letters:,}{silent}"


_START_SECONDS = 30.0


@contextmanager
def embedded_gateway(settings: Settings) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a gateway inside the block, on `gateway.first_port` or, if that is in use, on any free port.

    Yields its address, and a function that checks that it still runs.
    """
    first = settings.gateway.first_port
    port = free_port() if is_listening(first) else first
    own = {"first_port": port, "address": HOST, "advertised_host": "", "advertised_by": "gateway", "listeners": []}
    settings = settings.model_copy(update={"gateway": settings.gateway.model_copy(update=own)})
    failures: list[Exception] = []

    def serve(stop: threading.Event) -> None:
        for module in (serve_gateway.__module__, counted.__module__):  # its counts would disturb the view
            logging.getLogger(module).setLevel(logging.WARNING)
        try:
            asyncio.run(
                serve_gateway(settings, nullcontext(stop), ServiceEndpoint(settings.metrics, "gateway", once=True))
            )
        except Exception as error:  # noqa: BLE001 `check` raises it on the main thread
            failures.append(error)

    def check() -> None:
        if failures:
            raise failures[0]

    with background(serve, "gateway"):
        problem = f"the gateway is not listening after {_START_SECONDS:.0f} s"
        wait_until(lambda: is_listening(port), check, _START_SECONDS, problem)
        yield f"{HOST}:{port}", check
