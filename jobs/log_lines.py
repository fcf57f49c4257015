"""The log of this process and its Python workers, on standard error: its level, and JSON lines.

`conf/log4j2.properties` configures the JVM's log.
"""

import io
import json
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TextIO

from quota.text import escaped, escaped_json

SERVICE_VARIABLE = "MUTATION_QUOTA_JSON_LOG"
"""The environment variable of workers that log as JSON; its value is the name of the service."""

QUERY_PROPERTY = "mdc.query"
"""Spark's local property that names a query. Spark passes it to its tasks, and executors add it to their log."""

_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
"""The log4j names of levels that differ from Python's."""

_OWN = ("jobs", "quota")
"""The loggers of this project. Those of libraries stay at `info`, because their details would hide ours."""

_FORMAT_VARIABLE = "MUTATION_QUOTA__LOGGING__FORMAT"

_RUST_LOG, _QUIET = "RUST_LOG", "error"
"""The variable from which deltalake reads the level of its log when it is imported.

Its warnings, such as a page on each attempt to find credentials in the cloud, are repeated by the error after them.
"""

Context = Callable[[], Mapping[str, Any]]

_batch: ContextVar[Mapping[str, Any]] = ContextVar("batch", default=MappingProxyType({}))
"""The query and the batch that the current thread of this process works on, if any."""


@contextmanager
def batch_in_log(query: str, batch: int) -> Iterator[None]:
    """Add the query and the batch to what this thread logs inside the block."""
    before = _batch.set({"query": query, "batch": batch})
    try:
        yield
    finally:
        _batch.reset(before)


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON: `time` (RFC 3339, UTC), `level`, `service`, `logger`, `message`.

    The line has `query` and `batch` if they are known from `extra=` of the call or from the context. An exception adds
    `error`, which is its type, and `trace`.
    """

    def __init__(self, service: str, context: Context = dict) -> None:
        super().__init__()
        self._service = service
        self._context = context

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": _LEVELS.get(record.levelname, record.levelname),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        event |= self._context()
        event |= {name: vars(record)[name] for name in ("query", "batch", "error") if name in vars(record)}
        if record.exc_info and record.exc_info[0]:
            event.setdefault("error", record.exc_info[0].__name__)
            event["trace"] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(event, ensure_ascii=False, default=str, separators=(",", ":")))


def log_as_json(service: str, context: Context = _batch.get) -> None:
    """Log as JSON to standard error from now on.

    This includes Python's warnings, exceptions that end a thread, and lines that libraries print to standard error.
    """
    stream = sys.stderr.stream if isinstance(sys.stderr, _LoggedLines) else sys.stderr
    handler = _LineHandler(stream)
    handler.setFormatter(JsonFormatter(service, context))
    root = logging.getLogger()
    root.handlers = [handler]
    logging.captureWarnings(capture=True)
    warnings.formatwarning = _on_one_line
    threading.excepthook = _log_thread_failure
    sys.stderr = _LoggedLines(stream)


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes records to the original standard error."""

    _reports = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 logging names it
        """Print why a record was not written, unless it is a line of such a report.

        Printed lines are records, too, and where one cannot be written, because a disk is full or a pipe is closed, the
        next one cannot either.
        """
        if self._reports:  # set by this thread: it holds the lock of the handler
            return
        self._reports = True
        try:
            super().handleError(record)
        finally:
            self._reports = False


class _LoggedLines(io.TextIOBase):
    """A replacement for standard error that logs each printed line, and an unfinished one when it is flushed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._threads = threading.local()  # parts of a line that two threads print at a time are not mixed

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.stream.encoding

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    def write(self, text: str) -> int:
        *lines, self._threads.begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            logging.getLogger("stderr").warning("%s", line)
        return len(text)

    @property
    def _begun(self) -> str:
        """The unfinished line of the current thread."""
        return getattr(self._threads, "begun", "")

    def flush(self) -> None:
        if self._begun:  # for example a question, which would not be seen before its answer
            self.write("\n")
        self.stream.flush()


def logs_as_json() -> bool:
    """Return whether this process logs as JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def _on_one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    del line
    return f"{filename}:{lineno}: {category.__name__}: {message}"


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_type is SystemExit or failure.exc_value is None:
        return
    name = failure.thread.name if failure.thread else "?"
    trace = (failure.exc_type, failure.exc_value, failure.exc_traceback)
    logging.getLogger("threading").error("the thread %s has failed: %s", name, failure.exc_value, exc_info=trace)


def start_log(program: str, environment: Mapping[str, str] = os.environ) -> None:
    """Log at level `info`, as plain lines, until the settings are read.

    If the environment sets the format, errors in the settings have it, too.
    """
    handler = _TerminalHandler() if sys.stderr.isatty() else logging.StreamHandler()
    handler.setFormatter(_LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    os.environ.setdefault(_RUST_LOG, _QUIET)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if environment.get(_FORMAT_VARIABLE) == "json":
        log_as_json(program)


def log_verbosely() -> None:
    """Log at level `debug`."""
    if os.environ.get(_RUST_LOG) == _QUIET:
        os.environ[_RUST_LOG] = "warn"
    for name in _OWN:
        logging.getLogger(name).setLevel(logging.DEBUG)


class _LineFormatter(logging.Formatter):
    """Formats a record as its message, with the control characters of values from outside escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record), kept="\n\t")


class _TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`: a live display replaces it, to print lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
