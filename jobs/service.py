"""The jobs as services: prepared, run until they end or are stopped."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit import start_audit
from jobs.deployment import claim_storage
from jobs.enforce import start_enforce
from jobs.running import run_until, stop_signals
from jobs.session import end_session, spark_session
from jobs.user_topics import UserTopicsWatch
from quota.callbacks.loading import check as check_callbacks
from quota.kafka.quota_log import read_log
from quota.kafka.topics import prepare_topics
from quota.settings import Settings

_log = logging.getLogger(__name__)


def run_enforce(settings: Settings, *, once: bool) -> None:
    """Enforce until stopped, or until all requests that are there are decided; with the audit, if the settings say so.

    With `once` the audit comes after the decisions, so that it keeps them all.
    """
    check_callbacks(settings.quota.callbacks)
    with stop_signals() as stop, prepared_session(settings, "enforce") as spark:
        _tell_callback(settings)
        if not once:
            _run(stop, *start_queries(spark, settings), watch=UserTopicsWatch(spark, settings))
            return
        _run(stop, start_enforce(spark, settings, once=True))
        if settings.enforce.with_audit and not stop.is_set():
            _run(stop, start_audit(spark, settings, once=True))


def run_audit(settings: Settings, *, once: bool) -> None:
    """Audit until stopped, or until all records that are there are kept."""
    with stop_signals() as stop, prepared_session(settings, "audit") as spark:
        _run(stop, start_audit(spark, settings, once=once))


@contextmanager
def prepared_session(settings: Settings, name: str, log: Path | None = None) -> Iterator[SparkSession]:
    """A session on topics and a storage root that belong together.

    Raises:
        MutationQuotaError: they do not, or the cluster is not as the jobs need it.
    """
    topics = settings.topics
    topic_ids = prepare_topics(settings, [topics.requests, topics.decisions, topics.dead_letters, topics.quotas])
    spark = spark_session(settings, f"mutation-quota {name}", log)
    try:
        claim_storage(spark, settings, topic_ids)
        yield spark
    finally:
        end_session(spark)


def start_queries(spark: SparkSession, settings: Settings) -> list[StreamingQuery]:
    """Start enforcing, and auditing beside it if the settings say so."""
    queries = [start_enforce(spark, settings)]
    if settings.enforce.with_audit:
        queries.append(start_audit(spark, settings))
    return queries


def _tell_callback(settings: Settings) -> None:
    """Say who judges, where it is not the eight levels; the quota log goes before the settings."""
    log = read_log(settings)
    found = log.quotas.callback(log.now)
    if not found.is_default:
        by = "settings" if found == settings.quota.callbacks.setting else "quota log, which goes before the settings"
        _log.info("callback: %s, by the %s", found.class_name, by)


def _run(stop: threading.Event, *queries: StreamingQuery, watch: Callable[[], None] | None = None) -> None:
    _log.info("running: %s", ", ".join(query.name for query in queries))
    run_until(stop, queries, watch)
