"""Advice to operators about a query that failed for an environmental reason."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from jobs.spark.failures import QueryFailed
from quota.errors import MutationQuotaError
from quota.settings import Settings

_AGAIN = "then start again: it goes on where it was, and nothing is lost"

_MORE_MEMORY = (
    "where it ran out of memory, as its lines before this one tell, raise spark.driver_memory "
    f"(spark.executor.memory on a cluster), {_AGAIN}"
)

_ADVICE = {
    "No space left on device|Disk quota exceeded|quota of .* is exceeded": (
        f"no space is left where {{root}} is, or Spark's working files (spark.local.dir); free some, {_AGAIN}"
    ),
    "cannot read the quotas in|gave nothing for": (
        "without the quotas nothing can be decided (enforce.quota_timeout_seconds is how long it waits); "
        f"bring the topic back, {_AGAIN}"
    ),
    "data may have been lost|data may have been missed|OffsetOutOfRangeException": (
        "records were removed before they were read; to go on behind them, start again with "
        "--set {query}.fail_on_data_loss=false"
    ),
    "CONCURRENT_STREAM_LOG_UPDATE|Concurrent transaction failed": (
        "another {query} works on {root}, too; let one run at a time"
    ),
    "CANNOT_LOAD_STATE_STORE|MISSING_STATE_DIRECTORY|CHECKPOINT_LOCATION_NOT_EMPTY|Incomplete log file"
    "|ChecksumException": (
        "the checkpoint of {query} in {root}/checkpoints is damaged; restore it from a backup, {damaged}"
    ),
    "Failed to find data source|DATA_SOURCE_NOT_FOUND": (
        "the jobs' jars (make package puts them into dist/jars) are not on Spark's class path; "
        "give them to spark-submit by --jars, or as spark.jars"
    ),
    r"Timed out waiting for a node|org\.apache\.kafka\S*(Timeout|Disconnect)Exception|not present in metadata": (
        f"Kafka at {{servers}} does not answer; bring it back, {_AGAIN}"
    ),
    r"OutOfMemoryError|Java heap space|return value of .org\.apache\.spark\.\S+ is null": f"Spark ends; {_MORE_MEMORY}",
}
"""Advice by a pattern in Spark's error text; the first match counts."""

_QUERY_ADVICE = {
    "minutes": {
        r"reading file \S*/tables/tenant_minutes/\S* File does not exist": (
            "{root}/tables/tenant_minutes has lost files; move it away, and {root}/checkpoints/{query} with it: "
            "all minutes are made again of the decisions that are there"
        ),
        "DIFFERENT_DELTA_TABLE_READ|FILE_NOT_EXIST|LOG_FILE_NOT_FOUND|due to log cleanup": (
            "decisions were removed for good before they were read, or their table was begun anew; "
            "remove {root}/checkpoints/{query}: it goes on with the decisions that are there, and all its minutes stay"
        ),
        "DELTA_CONCURRENT|Concurrent(Append|DeleteRead|DeleteDelete)Exception": (
            f"something else has rewritten {{root}}/tables/tenant_minutes meanwhile; {_AGAIN.removeprefix('then ')}"
        ),
        "DELTA_SCHEMA_CHANGED": f"the audit has given its table new columns; {_AGAIN.removeprefix('then ')}",
    },
}
"""Advice by query, tried before the advice for all queries."""

_DAMAGED_ADVICE = {
    "enforce": (
        "or discard the state with `enforce --reset-state`: all buckets are full then, "
        "and requests that their topic still holds are decided again"
    ),
    "audit": "or remove it: the audit reads its topics again and adds what the tables do not hold",
    "minutes": "or remove it: all minutes are made again of the decisions that are there",
}


@contextmanager
def with_operator_advice(settings: Settings) -> Iterator[None]:
    """Add advice to the error of a query that fails inside the block for a reason that an operator can fix.

    Raises:
        MutationQuotaError: one line: which query failed, why, and what to do.
    """
    try:
        yield
    except QueryFailed as failure:
        for pattern, advice in (_QUERY_ADVICE.get(failure.name, {}) | _ADVICE).items():
            if re.search(pattern, failure.text):
                what_to_do = advice.format(
                    root=settings.storage.url,
                    query=failure.name,
                    servers=settings.kafka.bootstrap_servers,
                    damaged=_DAMAGED_ADVICE.get(failure.name, ""),
                )
                raise MutationQuotaError(f"{failure}; {what_to_do}") from None
        raise
    except (Py4JNetworkError, ConnectionError):
        raise MutationQuotaError(f"Spark's JVM has ended; {_MORE_MEMORY}") from None
