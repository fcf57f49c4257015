"""Advice to operators about a query that failed because of its environment."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

from jobs.spark.failures import QueryFailed
from jobs.store_errors import FREE_SPACE, NO_SPACE, messages_of, store_problem_among
from quota.errors import MutationQuotaError
from quota.settings import Settings
from quota.settings.secrets import mask_values

_AGAIN = "then start it again: it continues from its checkpoint, and nothing is lost"

_MORE_MEMORY = (
    "if the lines before this one show that it ran out of memory, raise spark.driver_memory "
    f"(spark.executor.memory on a cluster), {_AGAIN}"
)

_DAMAGE = (
    "CANNOT_LOAD_STATE_STORE|MISSING_STATE_DIRECTORY|CHECKPOINT_LOCATION_NOT_EMPTY|Incomplete log file"
    "|ChecksumException"
)
"""Spark's errors for a damaged checkpoint, and for any other error while it loads one."""

_NO_ACCESS = (
    r"Access Denied|Permission denied|not permitted|Status Code: 40[13]|Connection (rejected|reset|closed)|timed out"
    r"|Input/output error|Stale file handle|Too many open files|not connected|Filesystem closed|SERVICE_UNAVAILABLE"
    r"|(Access|Auth|Connect|Connection|Credential|Timeout|Socket|SSL|Standby|SafeMode|UnknownHost|NoRouteToHost"
    r"|InterruptedIO|BlockMissing)\w*Exception"
    r"|hadoop\.fs\.(s3a\.\w*(AWS|S3|Store)|azurebfs\.)\S*Exception|software\.amazon\.awssdk\S*Exception"
    r"|com\.google\.\S*Exception"
)
"""Errors that mean that the files could not be read; they need not be damaged."""

_UNREADABLE = f"{{root}}/checkpoints could not be read; restore access to it, {_AGAIN}"

_ADVICE = {
    NO_SPACE: (f"no space is left in {{root}} or in Spark's working folder (spark.local.dir); free some, {_AGAIN}"),
    "cannot read the quotas in|no records of .* arrived for": (
        "requests cannot be decided without the quotas (waited for a minute); "
        f"make all brokers of the quota topic available, {_AGAIN}"
    ),
    "offset was changed from": (
        "a partition ends before what was read: a broker has lost records, or the topic was restored; start on another "
        "storage.root with new topics, as docs/how-to/operations/state.md describes"
    ),
    "data may have been lost|data may have been missed|OffsetOutOfRangeException": (
        "records were removed before they were read; to continue after them, start it again with "
        "--set spark.fail_on_data_loss=false"
    ),
    "CONCURRENT_STREAM_LOG_UPDATE|Concurrent transaction failed": (
        "another {query} is running on {root}; stop it first, or set a separate storage.root"
    ),
    _DAMAGE: ("the checkpoint of {query} in {root}/checkpoints is damaged; restore it from a backup, {damaged}"),
    r"S3AFileSystem not found|AbortableStreamBasedCheckpointFileManager|No FileSystem for scheme .?s3a": (
        "the jars of S3 (make package S3=1 puts them into dist/jars) are not on Spark's class path"
    ),
    "Failed to find data source|DATA_SOURCE_NOT_FOUND": (
        "the jobs' jars (from make package, in dist/jars) are not on Spark's class path; "
        "pass them to spark-submit with --jars, or set spark.jars"
    ),
    r"SaslAuthenticationException|IllegalSaslStateException|KafkaException: javax\S+LoginException": (
        "Kafka at {servers} rejects the login, or a token has expired while the token server is unavailable; "
        f"check both, {_AGAIN}"
    ),
    r"Timed out waiting for a node|org\.apache\.kafka\S*(Timeout|Disconnect)Exception|not present in metadata": (
        f"Kafka at {{servers}} does not respond; restore it, {_AGAIN}"
    ),
    r"OutOfMemoryError|Java heap space|return value of .org\.apache\.spark\.\S+ is null": (
        f"Spark has exited; {_MORE_MEMORY}"
    ),
}
"""Advice by pattern of Spark's error text; the first match applies."""

_DAMAGED_ADVICE = {
    "enforce": (
        "or discard the state with `enforce --reset-state`: all buckets are then full, "
        "and requests that are still in their topic are decided again"
    ),
    "audit": "or remove it: the audit then reads its topics again and adds missing records to the tables",
}


@contextmanager
def with_operator_advice(settings: Settings) -> Iterator[None]:
    """Add advice to the error of a query that fails inside the block for a reason that an operator can fix."""
    try:
        yield
    except QueryFailed as failure:
        failure.args = (
            mask_values(str(failure), [secret.get_secret_value() for secret in settings.kafka.java.values()]),
        )
        if (advised := _advised(failure, settings)) is None:
            raise
        advised.query, advised.batch = failure.query, failure.batch
        raise advised from None
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError):
        raise MutationQuotaError(f"Spark's JVM has exited; {_MORE_MEMORY}") from None


def _advised(failure: QueryFailed, settings: Settings) -> MutationQuotaError | None:
    """Return the failure with advice; None if there is no advice for it."""
    storage = settings.storage
    # First, because Spark wraps all errors that occur while it loads a checkpoint in the same error.
    if problem := store_problem_among(storage.root, failure.text, storage.endpoint):
        return MutationQuotaError(f"{failure.name} failed: {problem}; {_AGAIN}")
    for pattern, advice in _ADVICE.items():
        if re.search(pattern, failure.text):
            unreadable = pattern == _DAMAGE and re.search(_NO_ACCESS, messages_of(failure.text))
            what_to_do = (_UNREADABLE if unreadable else advice).format(
                root=storage.url,
                query=failure.name,
                servers=settings.kafka.bootstrap_servers,
                damaged=_DAMAGED_ADVICE.get(failure.name, ""),
            )
            return MutationQuotaError(f"{str(failure).removesuffix(FREE_SPACE)}; {what_to_do}")
    return None
