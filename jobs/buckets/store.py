"""Buckets in the state store of the enforcing query: read, also while it runs, and moved to another checkpoint.

The files of a finished batch do not change. They are removed after many later batches
(`spark.sql.streaming.minBatchesToRetain`); a reader that is too slow for that then reads a newer batch.

Spark cannot start a stateful Python query with an initial state. So another query with the same stateful stage reads
the buckets and writes a checkpoint of one batch. Then its offsets are replaced with those of the first requests that
the buckets do not include. To Spark, the result is the checkpoint of a query that has decided all earlier requests.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StringType, StructField, StructType

from jobs.buckets.saved import BucketFileHeader, SavedBucket, SavedBuckets, no_buckets_error
from jobs.query_names import ENFORCE
from jobs.spark.failures import QueryFailed, query_errors
from jobs.spark.queries import check_queries
from jobs.spark.session import spark_session_with_progress
from jobs.spark.worker import prepare_worker
from jobs.storage.checkpoint import Checkpoint, new_folder, write_offsets
from jobs.storage.deployment import Deployment
from jobs.storage.files import DeploymentSession
from jobs.storage.resumption import check_stateful_checkpoint, replace_checkpoint
from jobs.storage.stored_files import ReadableFiles, check_store
from quota.errors import MutationQuotaError
from quota.settings import Settings
from quota.settings.storage import query_folder
from schemas.buckets import STATE, STATE_VERSION
from schemas.kafka import ANSWER

if TYPE_CHECKING:
    import pandas as pd


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


def read_stored(settings: Settings, read: Callable[[Iterable[SavedBucket]], T]) -> T:
    """Return the result of `newest_buckets`, for which Spark is started; the enforcing query may run meanwhile."""
    return _with_spark(settings, "buckets list", lambda session: newest_buckets(session, read))


def _with_spark(settings: Settings, name: str, read: Callable[[DeploymentSession], T]) -> T:
    """Return the result of `read`; standard error tells that Spark is being started, and how far it has read."""
    with (
        spark_session_with_progress(settings, name, "reading buckets") as spark,
        query_errors(ENFORCE),
        DeploymentSession.on(spark, settings) as session,
    ):
        return read(session)


_SAVED = StructType([StructField("bucket", StringType()), *STATE.fields])


@query_errors(ENFORCE)
def capture_buckets(session: DeploymentSession) -> SavedBuckets:
    """Read the buckets of the enforcing query, which must not run, and the offsets up to which they are charged."""
    files = session.files
    checkpoint = check_stateful_checkpoint(files, ENFORCE, STATE_VERSION, session.deployment)
    folder = f"{files.root}/{checkpoint.folder}"
    if not checkpoint.commits:
        raise no_buckets_error(folder)
    if checkpoint.has_open_batch:
        raise MutationQuotaError(
            f"batch {checkpoint.offsets[-1]} of {folder} is not finished; run enforce --once to finish it, or stop the "
            "running enforce; then export again"
        )
    buckets = list(read_state(session.spark, folder, checkpoint.commits[-1]))
    positions = checkpoint.next_offset(files)
    known = session.deployment.topics
    topics = {name: known[name] for name in positions if name in known}
    return SavedBuckets(BucketFileHeader(STATE_VERSION, len(buckets), topics, positions), buckets)


@query_errors(ENFORCE)
def restore_buckets(session: DeploymentSession, saved: SavedBuckets) -> None:
    """Replace the enforcing query's checkpoint: it starts with these buckets, after the requests that they include.

    The session has as many shuffle partitions as the state is to have; the topics of the deployment are claimed.
    """
    files = session.files
    check_restorable(saved.header, session.deployment, files)
    prepared = new_folder(files, ENFORCE)
    folder, rows = f"{query_folder(prepared)}/v{STATE_VERSION}", f"{query_folder(prepared)}-rows"
    try:
        _write_checkpoint(session.spark, saved, checkpoint=f"{files.root}/{folder}", rows=f"{files.root}/{rows}")
    finally:
        files.remove(rows)
    write_offsets(files, f"{folder}/offsets/0", saved.header.positions)
    files.remove(f"{folder}/sources")  # the offsets of the rows
    replace_checkpoint(files, ENFORCE, STATE_VERSION, prepared)


def check_restorable(header: BucketFileHeader, known: Deployment, files: ReadableFiles) -> None:
    """Check that buckets belong to the topics of a deployment whose query has decided nothing since they were saved."""
    for name, topic_id in header.topics.items():
        if known.topics.get(name) != topic_id:
            raise MutationQuotaError(
                f"the buckets belong to a topic {name} with the id {topic_id}, but {files.root} belongs to "
                f"{known.topics.get(name, 'no such topic')}; load them in a deployment with the original topics"
            )
    checkpoint = Checkpoint.read(files, ENFORCE, STATE_VERSION)
    if checkpoint.exists and (checkpoint.has_open_batch or checkpoint.next_offset(files) != header.positions):
        raise MutationQuotaError(
            f"enforce has decided requests since the buckets were exported, in {files.root}/{checkpoint.folder}; stop "
            "it, export again, and load that file"
        )


def _write_checkpoint(spark: SparkSession, saved: SavedBuckets, checkpoint: str, rows: str) -> None:
    """Write a checkpoint of one batch, in which each row becomes a bucket."""
    tuples = [msgspec.structs.astuple(bucket) for bucket in saved.buckets]
    spark.createDataFrame(tuples, _SAVED).coalesce(1).write.parquet(rows)
    query = (
        spark.readStream.schema(_SAVED)
        .parquet(rows)
        .select("bucket", F.struct(*STATE.names).alias("state"))
        .groupBy("bucket")
        .applyInPandasWithState(_fill, ANSWER, STATE, "append", GroupStateTimeout.NoTimeout)
        .writeStream.queryName(ENFORCE)
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    check_queries([query])


def _fill(group: tuple[str], frames: Iterable["pd.DataFrame"], state: GroupState) -> Iterator["pd.DataFrame"]:  # noqa: ARG001
    prepare_worker(__name__)
    for frame in frames:
        for row in frame["state"]:
            state.update(tuple(row[name] for name in STATE.names))
    return iter(())


def export_buckets(settings: Settings) -> SavedBuckets:
    """Return the buckets of the enforcing query, which must not run."""
    check_store(settings)
    return _with_spark(settings, "buckets export", capture_buckets)
