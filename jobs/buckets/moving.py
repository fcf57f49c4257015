"""Moving to another checkpoint without forgiving debts: out of the state of one, and into the first batch of the next.

Spark has no way to begin a stateful query of Python with a state. So a query of another kind, with the same stateful
stage and the buckets as its input, makes a checkpoint of one batch; then its offsets are put to where the requests are
that the buckets do not know. For Spark that is a query which has decided everything before them.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StringType, StructField, StructType

from jobs.buckets.saved import SavedAt, SavedBuckets
from jobs.buckets.store import buckets_of, none_yet
from jobs.enforce.query import NAME
from jobs.spark.queries import check_queries, query_errors
from jobs.spark.session import working_session
from jobs.storage.checkpoint import Checkpoint, begin_with, check_checkpoint, write_offsets
from jobs.storage.deployment import Deployment
from jobs.storage.files import Files
from quota.errors import MutationQuotaError
from quota.settings.model import Settings
from schemas.buckets import ANSWERED, STATE, STATE_VERSION

_SAVED = StructType([StructField("bucket", StringType()), *STATE.fields])


@query_errors(NAME)
def saved_buckets(spark: SparkSession, settings: Settings) -> SavedBuckets:
    """The buckets of the enforcing query, and the requests that they know; it must not run meanwhile.

    Raises:
        MutationQuotaError: there is no checkpoint, no whole one, or one whose last batch is not finished.
    """
    files = Files(spark, settings)
    found = check_checkpoint(files, NAME, STATE_VERSION)
    folder = f"{files.root}/{found.folder}"
    if not found.commits:
        raise none_yet(folder)
    if found.is_open:
        raise MutationQuotaError(
            f"batch {found.offsets[-1]} of {folder} is begun and not finished; let {NAME} --once finish it, "
            f"or stop the {NAME} that runs; then export again"
        )
    buckets = list(buckets_of(spark, folder, found.commits[-1]))
    positions = _positions(found, files)
    known = Deployment.read(files).topics
    topics = {name: known[name] for name in positions if name in known}
    return SavedBuckets(SavedAt(STATE_VERSION, len(buckets), topics, positions), buckets)


def begin_with_buckets(spark: SparkSession, settings: Settings, saved: SavedBuckets) -> None:
    """Have the enforcing query begin with buckets, behind the requests that they know; set aside what it had.

    Args:
        spark: with as many shuffle partitions as the state shall have.
        settings: of a deployment whose topics are claimed.
        saved: the buckets.

    Raises:
        MutationQuotaError: they are of other topics, or it has decided more since they were saved.
    """
    files = Files(spark, settings)
    _check_topics(saved.at, Deployment.read(files), files.root)
    _check_behind(saved.at, Checkpoint.read(files, NAME, STATE_VERSION), files)
    made, rows = f"checkpoints/{NAME}-to-begin", f"checkpoints/{NAME}-to-begin-rows-{time.time_ns()}"
    files.remove(made)
    with query_errors(NAME):
        try:
            _make(spark, saved, checkpoint=f"{files.root}/{made}/v{STATE_VERSION}", rows=f"{files.root}/{rows}")
        finally:
            files.remove(rows)
        folder = f"{made}/v{STATE_VERSION}"
        write_offsets(files, f"{folder}/offsets/0", saved.at.positions)
        files.remove(f"{folder}/sources")  # how far the rows were read
        begin_with(files, NAME, STATE_VERSION, made)


def _make(spark: SparkSession, saved: SavedBuckets, checkpoint: str, rows: str) -> None:
    """A checkpoint of one batch, in which each row becomes a bucket."""
    given = [msgspec.structs.astuple(each) for each in saved.buckets]
    spark.createDataFrame(given, _SAVED).coalesce(1).write.parquet(rows)
    query = (
        spark.readStream.schema(_SAVED)
        .parquet(rows)
        .select("bucket", F.struct(*STATE.names).alias("state"))
        .groupBy("bucket")
        .applyInPandasWithState(_fill, ANSWERED, STATE, "append", GroupStateTimeout.NoTimeout)
        .writeStream.queryName(NAME)
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    check_queries([query])


def _fill(group: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:  # noqa: ARG001
    for frame in frames:
        for row in frame["state"]:
            state.update(tuple(row[name] for name in STATE.names))
    return iter(())


def _positions(found: Checkpoint, files: Files) -> dict[str, dict[str, int]]:
    positions: dict[str, dict[str, int]] = {}
    for each in found.positions(files):
        positions.setdefault(each.topic, {})[str(each.partition)] = each.offset
    return positions


def _check_topics(at: SavedAt, known: Deployment, root: str) -> None:
    for name, topic_id in at.topics.items():
        if known.topics.get(name) != topic_id:
            raise MutationQuotaError(
                f"the buckets are of a topic {name} with the id {topic_id}, and {root} belongs to "
                f"{known.topics.get(name, 'none of that name')}; begin with them on the topics that they are of"
            )


def _check_behind(at: SavedAt, found: Checkpoint, files: Files) -> None:
    """Whether nothing was decided since, as far as there is a checkpoint to tell."""
    if found.is_begun and (found.is_open or _positions(found, files) != at.positions):
        raise MutationQuotaError(
            f"{NAME} has gone on since the buckets were exported, in {files.root}/{found.folder}; "
            "stop it, export again, and begin with that file"
        )


def export_buckets(settings: Settings, file: Path) -> SavedBuckets:
    """Write the buckets of the enforcing query, which is stopped, to a file; they, too, are returned.

    Raises:
        MutationQuotaError: there are none, or the file is there already.
    """
    with working_session(settings, "buckets export") as spark:
        saved = saved_buckets(spark, settings)
    saved.write(file)
    return saved
