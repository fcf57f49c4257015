"""Running queries until they end or someone stops them."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from quota.errors import MutationQuotaError

_LOOK_SECONDS = 0.2
_BATCH_SECONDS = 30.0

_OUR_ERROR = re.compile(r"quota\.errors\.\w+: (.+)")
_PYTHON_ERROR = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+"
    r"(?:py4j\.protocol\.Py4JJavaError: An error occurred while calling .*\n: )?"  # behind it stands the JVM's own
    r"(\S.*)"
)


class QueryFailed(MutationQuotaError):
    """A query has ended by an error; the message is its reason in one line."""

    def __init__(self, name: str, text: str) -> None:
        """Tell what Spark said.

        Args:
            name: the query's.
            text: all of it.
        """
        super().__init__(f"{name} failed: {_cause(text)}")
        self.name = name
        self.text = text


@contextmanager
def query_errors(name: str) -> Iterator[None]:
    """Take what Spark raises inside the block for a failure of the query that is being started or looked after.

    Raises:
        QueryFailed: with the reason in one line.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise QueryFailed(name, str(error)) from None


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, instead of tearing something down in the middle; a second one does that."""
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    previous = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


def run_until(
    stop: threading.Event, queries: Sequence[StreamingQuery], look: Callable[[], None] = lambda: None
) -> None:
    """Wait until all queries have ended by themselves or `stop` is set, and then stop them between two batches.

    Args:
        stop: ends it.
        queries: those that run.
        look: called now and then, and once when they have ended; may end it by raising.

    Raises:
        QueryFailed: a query failed.
    """
    try:
        while not stop.is_set() and any(query.isActive for query in queries):
            check_queries(queries)
            look()
            stop.wait(_LOOK_SECONDS)
    finally:
        stop_after_batch(queries)
        look()
    check_queries(queries)


def check_queries(queries: Sequence[StreamingQuery]) -> None:
    """Raise the failure of the first query that has failed.

    Raises:
        QueryFailed: with the reason in one line.
    """
    for query in queries:
        failure = query.exception()
        if failure is not None:
            because = getattr(failure, "_cause", None)  # what Spark says of the reason is not in the text
            raise QueryFailed(query.name, f"{failure}\n{getattr(because, '_stackTrace', '')}")


def stop_after_batch(queries: Sequence[StreamingQuery]) -> None:
    """Stop queries; a batch under way is let finish, so that it need not be done again."""
    deadline = time.monotonic() + _BATCH_SECONDS
    under_way = {query: _last_batch(query) for query in queries}
    for query, batch in under_way.items():
        while (
            query.isActive
            and query.status["isTriggerActive"]
            and _last_batch(query) == batch
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        query.stop()


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return progress["batchId"] if progress else None


def _cause(text: str) -> str:
    ours = _OUR_ERROR.search(text)
    if ours:
        return ours[1]
    of_worker = _PYTHON_ERROR.search(text)
    if of_worker:
        return of_worker[1][:500]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes[-1].removeprefix("Caused by: ") if causes else lines[0])[:500].rstrip(":")


def trigger(seconds: float, *, once: bool) -> dict[str, Any]:
    """Arguments of `DataStreamWriter.trigger`: all that is there and then end, or a batch every so many seconds."""
    return {"availableNow": True} if once else {"processingTime": f"{round(seconds * 1000)} milliseconds"}
