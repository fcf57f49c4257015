"""Reads the buckets of the enforcing query from the state store of its checkpoint, also while it runs.

The files of a finished batch do not change. They are removed after many later batches
(`spark.sql.streaming.minBatchesToRetain`); a reader that is too slow for that then reads a newer batch.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.buckets.listing import BucketQuery, no_buckets_error, select_buckets
from jobs.buckets.saved import SavedBucket
from jobs.query_names import ENFORCE
from jobs.spark.failures import QueryFailed, query_errors
from jobs.spark.session import spark_session_with_progress, with_progress
from jobs.storage.checkpoint import Checkpoint
from jobs.storage.files import DeploymentSession
from quota.settings import Settings
from schemas.buckets import STATE, STATE_VERSION
from schemas.documents.quotas import Buckets

T = TypeVar("T")

_MAX_ATTEMPTS = 5


def read_state(spark: SparkSession, folder: str, batch: int) -> Iterator[SavedBucket]:
    """Yield the buckets as of the end of a batch."""
    _ = spark.streams.active  # starts the coordinator of state stores, which the reader needs
    state = spark.read.format("statestore").option("batchId", batch).load(folder)
    columns = [F.col("key.bucket"), *(F.col(f"value.groupState.{name}") for name in STATE.names)]
    for row in state.select(*columns).toLocalIterator():
        values: list[Any] = [bytes(value) if isinstance(value, bytearray) else value for value in row]
        yield SavedBucket(*values)


def newest_buckets(session: DeploymentSession, read: Callable[[Iterable[SavedBucket]], T]) -> T:
    """Return the result of `read` on the buckets as of the newest finished batch; nothing is written.

    It is called again with a newer batch if the files of this one are gone.
    """
    files, attempts = session.files, 0
    while True:
        attempts += 1
        checkpoint = Checkpoint.read(files, ENFORCE, STATE_VERSION)
        folder = f"{files.root}/{checkpoint.folder}"
        if not checkpoint.commits:
            raise no_buckets_error(folder)
        batch = checkpoint.commits[-1]
        try:
            with query_errors(ENFORCE):
                return read(read_state(session.spark, folder, batch))
        except QueryFailed:
            newest = Checkpoint.read(files, ENFORCE, STATE_VERSION).commits[-1:]
            if newest == [batch] or attempts == _MAX_ATTEMPTS:  # the files of the newest batch are never removed
                raise


def list_stored(settings: Settings, query: BucketQuery, clock: Callable[[], int]) -> Buckets:
    """Return the selected buckets as of the newest finished batch; the enforcing query may run at the same time."""
    with (
        spark_session_with_progress(settings, "buckets list") as spark,
        query_errors(ENFORCE),
        DeploymentSession.on(spark, settings) as session,
    ):

        def read() -> Buckets:
            return newest_buckets(session, lambda saved: select_buckets(saved, query, clock(), settings.quota.window))

        return with_progress(spark, "reading buckets", read)
