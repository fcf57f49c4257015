"""Starts and runs the queries of a service."""

import logging
import threading
from collections import Counter
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.query import start_audit
from jobs.audit.upkeep.subprocess import stopping_upkeep
from jobs.enforce.query import NAME, start_enforce
from jobs.metrics.query_observer import QueryObserver
from jobs.spark.queries import run_until, stop_after_batch
from jobs.storage.monitors import CheckpointMonitor, UserTopicsMonitor
from jobs.storage.run import Run
from schemas.buckets import STATE_VERSION

_log = logging.getLogger(__name__)


def start_queries(run: Run, failures: Counter[str]) -> list[StreamingQuery]:
    """Start the enforcing query, and the audit if `enforce.with_audit` is set. `failures` counts failed upkeep."""
    # The audit starts first: it has more checks that may fail.
    audits = [start_audit(run, failures=failures)] if run.settings.enforce.with_audit else []
    return [start_enforce(run), *audits]


def observing(run: Run, observer: QueryObserver) -> Callable[[], None]:
    """Return a function to poll once a second while observed queries run, one of which is the enforcing query."""
    checkpoint = CheckpointMonitor(run.files, observer, NAME, STATE_VERSION)
    user_topics = UserTopicsMonitor(run.files, run.settings)

    def poll() -> None:
        observer.poll()
        checkpoint.poll()
        user_topics.poll()

    return poll


def run_queries(stop: threading.Event, *queries: StreamingQuery, poll: Callable[[], None] = lambda: None) -> None:
    """Log the names of the queries and run them (`jobs.spark.queries.run_until`), unless `stop` is set already."""
    if stop.is_set():
        stop_after_batch(queries)
        raise KeyboardInterrupt
    _log.info("running: %s", ", ".join(query.name for query in queries))
    with stopping_upkeep(stop):
        run_until(stop, queries, poll)
