"""The jobs as services: prepared, run until they end or are stopped."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.query import start_audit
from jobs.buckets.moving import begin_with_buckets
from jobs.buckets.saved import read_buckets
from jobs.enforce.query import NAME, start_enforce
from jobs.metrics.endpoint import MetricsEndpoint
from jobs.services.prepared import prepared_session, run_queries
from jobs.spark.queries import stop_signals
from jobs.storage.checkpoint import FirstBatch, begin_anew
from jobs.storage.files import Files
from jobs.storage.user_topics import UserTopicsMonitor
from quota.callbacks.loading import check_callbacks
from quota.kafka.quota_log import read_log
from quota.settings.model import Settings
from schemas.buckets import STATE_VERSION

_log = logging.getLogger(__name__)


def run_enforce(settings: Settings, *, once: bool, anew: bool = False, buckets: Path | None = None) -> None:
    """Enforce until stopped, or until all requests that are there are decided; with the audit, if the settings say so.

    Args:
        settings: the settings.
        once: end when all is decided; the audit comes after the decisions then, so that it keeps them all.
        anew: begin with full buckets and the oldest requests, whatever the checkpoint holds.
        buckets: begin anew with those of this file instead, behind the requests that they know.

    Raises:
        MutationQuotaError: a query cannot start, or failed; in one line, with what to do.
    """
    check_callbacks(settings.quota.callbacks)
    saved = read_buckets(buckets) if buckets else None
    with (
        stop_signals() as stop,
        MetricsEndpoint(settings.metrics, once=once) as endpoint,
        prepared_session(settings, "enforce") as spark,
        endpoint.following(settings, decides=True) as watch,
    ):
        _tell_callback(settings)
        if saved:
            begin_with_buckets(spark, settings, saved)
        elif anew:
            begin_anew(Files(spark, settings), NAME)
        queries = [start_enforce(spark, settings, once=True)] if once else start_queries(spark, settings)
        watch(queries)
        run_queries(stop, *queries, look=looking_after(spark, settings, queries))
        if once and settings.enforce.with_audit and not stop.is_set():
            run_queries(stop, start_audit(spark, settings, once=True))


def start_queries(spark: SparkSession, settings: Settings) -> list[StreamingQuery]:
    """Start enforcing, and auditing beside it if the settings say so."""
    audits = (
        [start_audit(spark, settings)] if settings.enforce.with_audit else []
    )  # first: it has the more to object to
    return [start_enforce(spark, settings), *audits]


def looking_after(spark: SparkSession, settings: Settings, queries: Sequence[StreamingQuery]) -> Callable[[], None]:
    """What is to be called now and then while these queries run, one of which enforces."""
    files = Files(spark, settings)
    (enforcing,) = [query for query in queries if query.name == NAME]
    batch, topics = FirstBatch(files, enforcing, STATE_VERSION), UserTopicsMonitor(files, settings)

    def look() -> None:
        batch.look()
        topics.look()

    return look


def _tell_callback(settings: Settings) -> None:
    """Say who judges, where it is not the eight levels; the quota log goes before the settings."""
    log = read_log(settings)
    found = log.quotas.callback(log.now)
    if not found.is_default:
        by = "settings" if found == settings.quota.callbacks.setting else "quota log, which goes before the settings"
        _log.info("callback: %s, by the %s", found.class_name, by)
