"""The lifecycle of streaming queries: triggers, monitoring and stops."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.background import background
from jobs.spark.failures import QueryFailed
from quota.kafka.timing import Deadline, Every

_CHECK_SECONDS = 0.2
_POLL_SECONDS = 1.0
_BATCH_SECONDS = 30.0


def trigger(seconds: float, *, once: bool) -> dict[str, Any]:
    """Return the arguments of `DataStreamWriter.trigger`; with `once`, the query ends after the available records."""
    return {"availableNow": True} if once else {"processingTime": f"{round(seconds * 1000)} milliseconds"}


def await_queries(
    stop: threading.Event, queries: Sequence[StreamingQuery], poll: Callable[[], None] = lambda: None
) -> None:
    """Wait until a query ends or `stop` is set, then stop those that still run, between two batches.

    `poll` is called once a second, and once after the queries have ended; an exception ends the wait. The failure of a
    query is raised before any other, which it may have caused.
    """
    poll_now = Every(_POLL_SECONDS)
    try:
        while not stop.is_set() and all(query.isActive for query in queries):
            if poll_now.is_due():
                poll()
            stop.wait(_CHECK_SECONDS)
        stop_after_batch(queries)
        poll()
    except BaseException as error:
        with suppress(Py4JError, PySparkException, OSError):  # the JVM may have exited; that error is not the first
            stop_after_batch(queries)
            if isinstance(error, Exception):
                check_queries(queries)
        raise
    check_queries(queries)


def check_queries(queries: Sequence[StreamingQuery]) -> None:
    """Raise the failure of the first query that has failed."""
    for query in queries:
        failure = query.exception()
        if failure is not None:
            cause = getattr(failure, "_cause", None)  # Spark's reason is not part of the text
            raise QueryFailed(query.name, f"{failure}\n{getattr(cause, '_stackTrace', '')}", _failed_batch(query))


def _failed_batch(query: StreamingQuery) -> int | None:
    """Return the number of the batch in which a query has failed; None if it failed before it had one.

    The progress of a query does not have it: it describes batches that were finished.
    """
    with suppress(Exception):  # the failure itself matters more; PySpark may change what is not public
        execution = query._jsq.streamingQuery()  # noqa: SLF001 PySpark has no other way to it
        batch: int = execution.getLatestExecutionContext().batchId()
        return batch if batch >= 0 else None
    return None


def stop_after_batch(queries: Sequence[StreamingQuery]) -> None:
    """Stop queries after their current batch, so that it does not run again; wait at most 30 s in total.

    From then on py4j logs nothing: a batch that is stopped within would end in a traceback.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    deadline = Deadline(_BATCH_SECONDS)
    current = {query: _last_batch(query) for query in queries}
    for query, batch in current.items():
        while (
            query.isActive
            and query.status["isTriggerActive"]
            and _last_batch(query) == batch
            and not deadline.has_passed
        ):
            time.sleep(0.01)
        query.stop()


def stop_all(spark: SparkSession) -> bool:
    """Stop the queries that still run, even within a batch; return whether all are known to have stopped."""
    stopped = threading.Event()

    def stop(_: threading.Event) -> None:
        with suppress(Py4JError, PySparkException, OSError):
            for query in spark.streams.active:
                query.stop()
            if not spark.streams.active:
                stopped.set()

    # Each thread has its own connection to the JVM; an interrupted call leaves this thread's in an unknown state.
    with background(stop, "stop-queries"):
        pass
    return stopped.is_set()


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return progress["batchId"] if progress else None
