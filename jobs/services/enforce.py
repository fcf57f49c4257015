"""The service that decides requests."""

import logging
from pathlib import Path

from jobs.audit.query import start_audit
from jobs.buckets.moving import restore_buckets
from jobs.buckets.saved import read_buckets
from jobs.enforce.query import NAME, start_enforce
from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.metrics.health.queries import QueryHealth
from jobs.metrics.queries import QueryMetrics
from jobs.services.queries import deployment_monitor, run_queries, start_queries
from jobs.services.session import deployment_session
from jobs.services.signals import stop_signals
from jobs.spark.failures import query_errors
from jobs.storage.files import Files
from jobs.storage.starting import reset_checkpoint
from quota.callbacks.loading import check_callbacks
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
    """Enforce until stopped, and audit if `enforce.with_audit` is set.

    Args:
        settings: the settings of the deployment.
        once: decide all available requests, then audit all decisions, then exit.
        reset: start with full buckets and the oldest requests, regardless of the checkpoint.
        buckets: a file of buckets to start with instead, after the requests that they include.
        take_over: do not wait for the lease of a process on another machine.

    Raises:
        BadInput: the file of buckets or the callback is invalid.
        MutationQuotaError: a query cannot start or has failed; the message contains the reason and advice.
    """
    check_callbacks(settings.quota.callbacks)
    saved = read_buckets(buckets) if buckets else None
    metrics, health = QueryMetrics(settings), QueryHealth(settings)
    with (
        ServiceEndpoint(settings.metrics, NAME, once=once) as endpoint,
        deployment_session(settings, "enforce", take_over=take_over) as spark,
        endpoint.following(settings, metrics, health, decides=True),
    ):
        _log_callback(settings)
        if saved:
            restore_buckets(spark, settings, saved)
        elif reset:
            with query_errors(NAME):
                reset_checkpoint(Files(spark, settings), NAME)
        with stop_signals() as stop:
            queries = [start_enforce(spark, settings, once=True)] if once else start_queries(spark, settings)
            metrics.watch(queries)
            health.watch(spark.sparkContext, queries, stop)
            run_queries(stop, *queries, poll=deployment_monitor(spark, settings, queries))
            if once and settings.enforce.with_audit and not stop.is_set():
                run_queries(stop, start_audit(spark, settings, once=True))


def _log_callback(settings: Settings) -> None:
    """Log the callback in effect and its origin, unless it is the default one."""
    log = read_log(settings)
    found = log.quotas.callback(log.now)
    if not found.is_default:
        by = "settings" if found == settings.quota.callbacks.setting else "quota log, which overrides the settings"
        _log.info("callback: %s, by the %s", found.class_name, by)
