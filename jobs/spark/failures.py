"""Converts Spark's errors to failures of a query, with the reason in one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from quota.errors import MutationQuotaError

_MAX_REASON_CHARS = 500

_OUR_ERROR = re.compile(r"(?:quota\.errors|jobs\.store_errors)\.\w+: (.+)")
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_PY4J_CALL = re.compile(r"(?:py4j\.protocol\.Py4JJavaError: )?An error occurred while calling .*\n: ")
"""The line that py4j writes before the JVM's error."""


class QueryFailed(MutationQuotaError):
    """A query has failed; the message is its reason in one line."""

    def __init__(self, name: str, text: str, batch: int | None = None) -> None:
        super().__init__(f"{name} failed: {reason_in(text)}")
        self.name = self.query = name
        self.batch = batch
        self.is_own = bool(_OUR_ERROR.search(text))
        """Whether the reason is an error of this program, which says what to do."""
        self.text = text
        """The error text, with all causes."""


@contextmanager
def query_errors(name: str) -> Iterator[None]:
    """Convert Spark's errors inside the block into failures of the named query."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        failure = QueryFailed(name, str(error))
        failure.text += f"\n{getattr(error, '_stackTrace', '')}"  # Spark's causes are not part of the text
        raise failure from None


def reason_in(text: str) -> str:
    """Return the most specific line: our error, a worker's Python error, the last `Caused by`, or the first line."""
    text = _PY4J_CALL.sub("", text)
    ours = _OUR_ERROR.search(text)
    if ours:
        return ours[1]
    of_worker = _PYTHON_ERROR.search(text)
    if of_worker:
        return of_worker[1][:_MAX_REASON_CHARS]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    reason = causes[-1].removeprefix("Caused by: ") if causes else lines[0]
    return reason[:_MAX_REASON_CHARS].rstrip(":")
