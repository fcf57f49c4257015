"""A state store of many buckets, made in seconds: the job would take seven minutes for a million."""

import shutil
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.storage.files import DeploymentSession
from quota.settings import Settings
from schemas.buckets import STATE
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.ground import PLENTY, Ground, shuffling

BUCKET = '["user-%d",""]'
"""The key of a user's bucket in `enforce`."""

_FIRST, _SPAN_MS = 1_790_000_000_000, 1_000_000_000
_STATE = "state/0"


def store_buckets(
    ground: Ground,
    settings: Settings,
    count: int,
    start: Callable[..., StreamingQuery],
    bucket: str,
) -> None:
    """Give a query that has had no batch the buckets of `count` users.

    An aggregation of one row per key writes its state in the same layout as the job: the key and a struct. The query
    processes a batch of one request, whose state files are then replaced by those of such an aggregation.
    """
    fill(settings, 1, 1)
    start(DeploymentSession.on(ground.spark, settings), once=True).awaitTermination()
    (state,) = Path(settings.storage.root, "checkpoints").rglob(_STATE)
    checkpoint = state.parents[1]
    with shuffling(ground.spark, len(list(state.glob("[0-9]*")))):
        made = _aggregated(ground, Path(settings.storage.root), count, bucket)
    for partition in sorted((made / _STATE).glob("[0-9]*")):
        for file in partition.iterdir():
            if file.is_file():
                shutil.copy(file, state / partition.name)
    shutil.rmtree(made)
    stored = ground.spark.read.format("statestore").load(str(checkpoint)).count()
    if stored != count:
        raise RuntimeError(f"{checkpoint} has {stored} buckets, not {count}: an aggregation has another layout")


def _aggregated(ground: Ground, folder: Path, count: int, bucket: str) -> Path:
    rows, made = folder / "rows", folder / "made"
    number = F.col("id")
    # Realistic numbers, or the store would compress them to almost nothing.
    known = {"K": PLENTY * F.rand(1), "T": F.lit(_FIRST) + (F.rand(2) * _SPAN_MS).cast("long"), "rate": F.lit(PLENTY)}
    values = [known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in STATE.fields]
    named = F.format_string(bucket, number).alias("bucket")
    ground.spark.range(count).select(named, F.struct(*values).alias("bucket_state")).write.parquet(str(rows))
    schema = ground.spark.read.parquet(str(rows)).schema
    query = (
        ground.spark.readStream.schema(schema)
        .parquet(str(rows))
        .groupBy("bucket")
        .agg(F.max("bucket_state"))
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(made))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if query.exception():
        raise query.exception()
    shutil.rmtree(rows)
    return made
