"""The services that are streaming queries: enforce, which decides requests, and audit, which writes the tables."""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.query import start_audit
from jobs.audit.upkeep_schedule import stopping_upkeep
from jobs.buckets.saved import SavedBuckets, read_buckets
from jobs.buckets.store import check_restorable, restore_buckets
from jobs.enforce.query import start_enforce, warm
from jobs.metrics.endpoint import Health, ServiceEndpoint
from jobs.metrics.queries import QueryMetrics, QueryObserver
from jobs.query_names import AUDIT, ENFORCE
from jobs.services.monitors import CheckpointMonitor, UserTopicsMonitor
from jobs.services.spark import check_root, claimed_deployment
from jobs.services.standby import Standby, StoppedStandby
from jobs.signals import stop_signals
from jobs.spark.failures import query_errors
from jobs.spark.queries import await_queries, stop_after_batch
from jobs.spark.session import is_submitted
from jobs.storage.checkpoint import current_folder
from jobs.storage.deployment import Deployment
from jobs.storage.files import DeploymentSession
from jobs.storage.lease import LeaseLost, LeaseWatch
from jobs.storage.resumption import reset_checkpoint
from jobs.storage.stored_files import QUICK, stored_files
from quota.callbacks.instance import check_callbacks
from quota.settings import Settings
from schemas.buckets import STATE_VERSION

_log = logging.getLogger(__name__)


def run_enforce(
    settings: Settings,
    *,
    once: bool,
    reset: bool = False,
    buckets: Path | None = None,
    take_over: bool = False,
) -> None:
    """Enforce until stopped, and audit if `enforce.with_audit` is set; with `once` only what is available.

    Another process that enforces is waited for, also if it has acquired the lease later, unless with `once` or `reset`.

    With `reset`, start with full buckets and the oldest requests, regardless of the checkpoint; with a file of
    `buckets`, start with those instead, after the requests that they include. `take_over` is as for `Lease.claim`.
    """
    check_callbacks(settings.quota.callbacks)
    saved = read_buckets(buckets) if buckets else None
    with ServiceEndpoint(settings.metrics, ENFORCE, once=once) as endpoint, suppress(StoppedStandby):
        if once or reset:
            with claimed_deployment(settings, ENFORCE, take_over=take_over) as claimed:
                session = _without_state(claimed, saved) if reset else claimed
                _enforce(endpoint, session, once=once)
            return
        standby = Standby(endpoint)
        while True:
            try:
                with claimed_deployment(settings, ENFORCE, take_over=take_over, standby=standby) as session:
                    if standby.answers is None:
                        warm(session)
                    _enforce(endpoint, session, answers=standby.answers)
            except LeaseLost as lost:
                if is_submitted():
                    raise
                _log.warning("%s; it waits again", lost)
                take_over = False  # the other process is alive
            else:
                return


def _enforce(
    endpoint: ServiceEndpoint, session: DeploymentSession, *, once: bool = False, answers: DataFrame | None = None
) -> None:
    settings = session.settings
    observer = QueryObserver(settings)
    metrics = QueryMetrics(settings, observer)
    with endpoint.following(settings, metrics, observer, with_decisions=True), stop_signals() as stop:
        failures = metrics.upkeep_failures
        queries = [start_enforce(session, once=True)] if once else start_queries(session, failures, answers)
        observer.watch(session.spark, queries, stop)
        run_queries(stop, *queries, poll=observing(session, observer), health=None if once else observer)
        if once and settings.enforce.with_audit and not stop.is_set():
            run_queries(stop, start_audit(session, once=True))


@query_errors(ENFORCE)
def _without_state(session: DeploymentSession, saved: SavedBuckets | None) -> DeploymentSession:
    """Set the checkpoint aside, and put one with the saved buckets in its place if there are any."""
    if saved:
        restore_buckets(session, saved)
    else:
        reset_checkpoint(session.files, ENFORCE)
    return replace(session, deployment=Deployment.read(session.files))


def run_audit(settings: Settings, *, once: bool, take_over: bool = False) -> None:
    """Audit until stopped, or with `once` all available records; `take_over` as for `Lease.claim`."""
    observer = QueryObserver(settings)
    metrics = QueryMetrics(settings, observer)
    with (
        ServiceEndpoint(settings.metrics, AUDIT, once=once) as endpoint,
        claimed_deployment(settings, AUDIT, take_over=take_over) as session,
        endpoint.following(settings, metrics, observer),
        stop_signals() as stop,
    ):
        query = start_audit(session, once=once, failures=metrics.upkeep_failures)
        observer.watch(session.spark, [query], stop)
        run_queries(stop, query, poll=observer.poll, health=None if once else observer)


def preview_reset(settings: Settings, buckets: Path | None) -> tuple[str | None, int | None]:
    """Return what `run_enforce` would do with `reset`, without a JVM and without Kafka.

    The folder of the checkpoint that would be set aside, None if there is none; and the number of buckets to start
    with, None for full buckets.
    """
    check_callbacks(settings.quota.callbacks)
    saved = read_buckets(buckets) if buckets else None
    check_root(settings, [LeaseWatch(ENFORCE)])
    files = stored_files(settings, QUICK)
    known = Deployment.read(files)
    if saved and known.topics:  # a new root gets its topics from Kafka
        check_restorable(saved.header, known, files)
    name = current_folder(files, ENFORCE)
    folder = f"{files.root}/{name}" if files.names(name) else None
    return folder, len(saved.buckets) if saved else None


def start_queries(
    session: DeploymentSession, failures: Counter[str], answers: DataFrame | None = None
) -> list[StreamingQuery]:
    """Start the enforcing query, with a standby's plan if there is one, and the audit if `enforce.with_audit` is set.

    `failures` counts failed upkeep.
    """
    queries = [start_enforce(session, answers=answers)]  # first, because clients wait for its decisions
    try:
        if session.settings.enforce.with_audit:
            queries.append(start_audit(session, failures=failures))
    except BaseException:
        stop_after_batch(queries)
        raise
    return queries


def observing(session: DeploymentSession, observer: QueryObserver) -> Callable[[], None]:
    """Return a function to poll once a second while observed queries run, one of which is the enforcing query."""
    checkpoint = CheckpointMonitor(session.files, observer, ENFORCE, STATE_VERSION, session.deployment)
    user_topics = UserTopicsMonitor(session.files, session.settings, session.topics)

    def poll() -> None:
        observer.poll()
        checkpoint.poll()
        user_topics.poll()

    return poll


def run_queries(
    stop: threading.Event,
    *queries: StreamingQuery,
    poll: Callable[[], None] = lambda: None,
    health: Health | None = None,
) -> None:
    """Run queries (`jobs.spark.queries.await_queries`), unless `stop` is set.

    Their names are logged once their health is ready, at once by default.
    """
    if stop.is_set():
        stop_after_batch(queries)
        raise KeyboardInterrupt
    is_logged = False

    def poll_and_log() -> None:
        nonlocal is_logged
        poll()
        if not is_logged and (health is None or health.ready().ok):
            is_logged = True
            _log.info("running: %s", ", ".join(query.name for query in queries))

    with stopping_upkeep(stop):
        await_queries(stop, queries, poll_and_log)
