"""The buckets of the enforcing query, read from the state store of its checkpoint, also while it runs.

A batch that is finished is not written to any more. Its files stay until many later ones are finished
(`spark.sql.streaming.minBatchesToRetain`), so that a reader has to be slow to find them gone; then it reads again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.buckets.listing import BucketList, BucketQuery, bucket_list
from jobs.buckets.saved import SavedBucket
from jobs.cli.times import now_ms
from jobs.enforce.query import NAME
from jobs.spark.queries import QueryFailed, query_errors
from jobs.spark.session import working_session
from jobs.storage.checkpoint import Checkpoint
from jobs.storage.files import Files
from quota.errors import MutationQuotaError
from quota.settings.model import Settings
from schemas.buckets import STATE, STATE_VERSION

T = TypeVar("T")

_TRIES = 5


def buckets_of(spark: SparkSession, folder: str, batch: int) -> Iterator[SavedBucket]:
    """The buckets as a batch has left them, one after another.

    Args:
        spark: any session.
        folder: the checkpoint.
        batch: one that is finished.
    """
    _ = spark.streams.active  # without it the reader finds no coordinator of state stores
    state = spark.read.format("statestore").option("batchId", batch).load(folder)
    columns = [F.col("key.bucket"), *(F.col(f"value.groupState.{name}") for name in STATE.names)]
    for row in state.select(*columns).toLocalIterator():
        plain: list[Any] = [bytes(each) if isinstance(each, bytearray) else each for each in row]
        yield SavedBucket(*plain)


def newest_buckets(spark: SparkSession, files: Files, take: Callable[[Iterable[SavedBucket]], T]) -> T:
    """What `take` makes of the buckets as the newest finished batch has left them; nothing is written.

    Raises:
        MutationQuotaError: no batch is finished.
        QueryFailed: they cannot be read.
    """
    tried: list[int] = []
    while True:
        found = Checkpoint.read(files, NAME, STATE_VERSION)
        folder = f"{files.root}/{found.folder}"
        if not found.commits:
            raise none_yet(folder)
        tried.append(found.commits[-1])
        try:
            with query_errors(NAME):
                return take(buckets_of(spark, folder, tried[-1]))
        except QueryFailed:
            newest = Checkpoint.read(files, NAME, STATE_VERSION).commits[-1:]
            if newest == tried[-1:] or len(tried) == _TRIES:  # not for its files having been removed meanwhile
                raise


def none_yet(folder: str) -> MutationQuotaError:
    """The error of a checkpoint without buckets."""
    return MutationQuotaError(f"there are no buckets in {folder}: {NAME} has not finished a batch yet")


def list_buckets(settings: Settings, wanted: BucketQuery) -> BucketList:
    """The buckets of the enforcing query as of its newest finished batch, and of now; it may run meanwhile.

    Raises:
        MutationQuotaError: there is no such batch.
    """
    with working_session(settings, "buckets list") as spark:
        files, window = Files(spark, settings), settings.quota.window
        return newest_buckets(spark, files, lambda saved: bucket_list(saved, wanted, now_ms(), window))
