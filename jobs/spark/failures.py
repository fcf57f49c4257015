"""Converts Spark's errors to failures of a query: the reason in one line, and advice if an operator can fix it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from quota.errors import FREE_SPACE, NO_SPACE, MutationQuotaError
from quota.settings import Settings
from quota.settings.secrets import mask_values

_MAX_REASON_CHARS = 500

_OUR_ERROR = re.compile(r"quota\.errors\.\w+: (.+)")
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_PY4J_CALL = re.compile(r"(?:py4j\.protocol\.Py4JJavaError: )?An error occurred while calling .*\n: ")
"""The line that py4j writes before the JVM's error."""

_AGAIN = "then start it again: it continues from its checkpoint, and nothing is lost"

_ADVICE = {
    NO_SPACE: f"no space is left in {{root}} or in Spark's working folder (spark.local.dir); free some, {_AGAIN}",
    "cannot read the quotas in|no records of .* arrived for": (
        "requests cannot be decided without the quotas (waited for a minute); "
        f"make all brokers of the quota topic available, {_AGAIN}"
    ),
    "CANNOT_LOAD_STATE_STORE": (
        "the checkpoint of {query} in {root}/checkpoints cannot be loaded; restore access to it; if it is damaged, "
        "restore it from a backup, or discard the state with `enforce --reset-state`: all buckets are then full, and "
        "requests that are still in their topic are decided again"
    ),
    r"SaslAuthenticationException|IllegalSaslStateException|KafkaException: javax\S+LoginException": (
        "Kafka at {servers} rejects the login, or a token has expired while the token server is unavailable; "
        f"check both, {_AGAIN}"
    ),
    r"Timed out waiting for a node|org\.apache\.kafka\S*(Timeout|Disconnect)Exception|not present in metadata": (
        f"Kafka at {{servers}} does not respond; restore it, {_AGAIN}"
    ),
}
"""Advice by pattern of Spark's error text; the first match applies. Each is tested with Spark's real error."""

_PAGE = "see docs/reference/errors.md#spark"


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


@contextmanager
def with_operator_advice(settings: Settings) -> Iterator[None]:
    """Add advice to the error of a query that fails inside the block for a reason that an operator can fix."""
    try:
        yield
    except QueryFailed as failure:
        shown = mask_values(str(failure), [secret.get_secret_value() for secret in settings.kafka.java.values()])
        advice = _advice(failure, settings) or (None if failure.is_own else _PAGE)
        failure.args = (f"{shown.removesuffix(FREE_SPACE)}; {advice}" if advice else shown,)
        raise
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError):
        raise MutationQuotaError(
            "Spark's JVM has exited; if the lines before this one show that it ran out of memory, raise "
            f"spark.driver_memory (spark.executor.memory on a cluster), {_AGAIN}"
        ) from None


def _advice(failure: QueryFailed, settings: Settings) -> str | None:
    for pattern, advice in _ADVICE.items():
        if re.search(pattern, failure.text):
            return advice.format(
                root=settings.storage.url, query=failure.name, servers=settings.kafka.bootstrap_servers
            )
    return None
