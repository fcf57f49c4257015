"""`enforce` and `audit` as services: prepared, run until they end or are stopped, and a word on what was done."""

import logging

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit import start_audit
from jobs.enforce import start_enforce
from jobs.running import run_until, stop_signals
from jobs.session import spark_session
from quota.kafka.topics import prepare_topics
from quota.settings import Settings

_log = logging.getLogger(__name__)


def run_enforce(settings: Settings, *, once: bool) -> None:
    """Enforce until stopped, or until all requests that are there are decided; with the audit, if the settings say so.

    With `once` the audit comes after the decisions, so that it keeps them all.
    """
    prepare_topics(settings)
    with stop_signals() as stop:
        spark = spark_session(settings, "mutation-quota enforce")
        try:
            if once:
                run_until(stop, _started(start_enforce(spark, settings, once=True)))
                if settings.enforce.with_audit and not stop.is_set():
                    run_until(stop, _started(start_audit(spark, settings, once=True)))
            else:
                run_until(stop, start_queries(spark, settings))
        finally:
            spark.stop()


def run_audit(settings: Settings, *, once: bool) -> None:
    """Audit until stopped, or until all records that are there are kept."""
    prepare_topics(settings)
    with stop_signals() as stop:
        spark = spark_session(settings, "mutation-quota audit")
        try:
            run_until(stop, _started(start_audit(spark, settings, once=once)))
        finally:
            spark.stop()


def start_queries(spark: SparkSession, settings: Settings) -> list[StreamingQuery]:
    """Start enforcing, and auditing beside it if the settings say so."""
    queries = [start_enforce(spark, settings)]
    if settings.enforce.with_audit:
        queries.append(start_audit(spark, settings))
    return _started(*queries)


def _started(*queries: StreamingQuery) -> list[StreamingQuery]:
    for query in queries:
        _log.info("%s is running", query.name)
    return list(queries)
