"""The services that are streaming queries: enforce, which decides requests, and audit, which writes the tables."""

import logging
from dataclasses import dataclass
from pathlib import Path

from jobs.audit.query import start_audit
from jobs.buckets.moving import check_restorable, restore_buckets
from jobs.buckets.saved import read_buckets
from jobs.enforce.query import start_enforce
from jobs.metrics.endpoint import ServiceEndpoint
from jobs.metrics.queries import QueryHealth, QueryMetrics, QueryObserver
from jobs.services.spark import check_root, claimed_deployment, observing, run_queries, start_queries
from jobs.signals import stop_signals
from jobs.spark.failures import query_errors
from jobs.storage.checkpoint import ENFORCE, current_folder
from jobs.storage.deployment import Deployment
from jobs.storage.resumption import reset_checkpoint
from jobs.storage.stored_files import QUICK, stored_files
from quota.callbacks.instance import check_callbacks
from quota.kafka.quotas.log import read_log
from quota.settings import Settings

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

    With `reset`, start with full buckets and the oldest requests, regardless of the checkpoint; with a file of
    `buckets`, start with those instead, after the requests that they include. `take_over` is as for `Lease.claim`.
    """
    check_callbacks(settings.quota.callbacks)
    saved = read_buckets(buckets) if buckets else None
    observer = QueryObserver()
    metrics, health = QueryMetrics(settings, observer), QueryHealth(settings, observer)
    with (
        ServiceEndpoint(settings.metrics, ENFORCE, once=once) as endpoint,
        claimed_deployment(settings, ENFORCE, take_over=take_over) as run,
        endpoint.following(settings, metrics, health, decides=True),
    ):
        _log_callback(settings)
        if saved:
            restore_buckets(run, saved)
        elif reset:
            with query_errors(ENFORCE):
                reset_checkpoint(run.files, ENFORCE)
        with stop_signals() as stop:
            queries = [start_enforce(run, once=True)] if once else start_queries(run, metrics.upkeep_failures)
            observer.watch(run.spark, queries, stop)
            run_queries(stop, *queries, poll=observing(run, observer))
            if once and settings.enforce.with_audit and not stop.is_set():
                run_queries(stop, start_audit(run, once=True))


def run_audit(settings: Settings, *, once: bool, take_over: bool = False) -> None:
    """Audit until stopped, or with `once` all available records; `take_over` as for `Lease.claim`."""
    observer = QueryObserver()
    metrics, health = QueryMetrics(settings, observer), QueryHealth(settings, observer)
    with (
        ServiceEndpoint(settings.metrics, "audit", once=once) as endpoint,
        claimed_deployment(settings, "audit", enforcing=False, take_over=take_over) as run,
        endpoint.following(settings, metrics, health),
        stop_signals() as stop,
    ):
        query = start_audit(run, once=once, failures=metrics.upkeep_failures)
        observer.watch(run.spark, [query], stop)
        run_queries(stop, query, poll=observer.poll)


@dataclass(frozen=True, slots=True)
class ResetPreview:
    """The effect of a start without the state."""

    folder: str | None
    """The folder of the checkpoint that would be set aside; None if there is none."""
    buckets: int | None
    """The number of buckets to start with; None for full buckets."""


def preview_reset(settings: Settings, buckets: Path | None) -> ResetPreview:
    """Return what `run_enforce` would do with `reset`, without a JVM and without Kafka."""
    check_callbacks(settings.quota.callbacks)
    saved = read_buckets(buckets) if buckets else None
    check_root(settings, [ENFORCE])
    files = stored_files(settings, QUICK)
    known = Deployment.read(files)
    if saved and known.topics:  # a new root gets its topics from Kafka
        check_restorable(saved.header, known, files)
    name = current_folder(files, ENFORCE)
    folder = f"{files.root}/{name}" if files.names(name) else None
    return ResetPreview(folder, len(saved.buckets) if saved else None)


def _log_callback(settings: Settings) -> None:
    """Log the callback in effect and its origin, unless it is the default one."""
    log = read_log(settings)
    callback = log.quotas.callback(log.now)
    if not callback.is_default:
        by = "settings" if callback == settings.quota.callbacks.setting else "quota log, which overrides the settings"
        _log.info("callback: %s, by the %s", callback.class_name, by)
