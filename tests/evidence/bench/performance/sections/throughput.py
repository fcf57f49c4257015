"""Draining a backlog: the cost by the number of active keys in a batch."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from statistics import median

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from jobs.enforce.query import start_enforce
from jobs.spark import kafka_source
from jobs.spark.kafka_source import read_records, read_requests, request_bounds
from jobs.spark.worker import prepare_worker
from jobs.storage.files import DeploymentSession
from quota.kafka.topics.specs import MAX_RECORD_BYTES
from quota.settings import Settings
from schemas.buckets import STATE
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure, Goal
from tests.evidence.bench.performance.ground import (
    FIRST_FETCH_WAIT,
    FIRST_PARTITIONS,
    PLENTY,
    Ground,
    batches,
    batches_of,
    elsewhere,
    rate_of,
    shuffling,
    start_pass_through,
    write,
)
from tests.evidence.bench.performance.size import Size

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


PASS_THROUGH, EMPTY, ENFORCE = "pass-through", "empty function", "enforce"
THROUGHPUT_GOALS = {1000: Goal(0.75, at_least=True), 100_000: Goal(6, at_least=True)}
"""The goals by the number of active keys."""
PER_KEY_GOAL = Goal(0.2)

_GIVE_UP_SECONDS = 400.0


def start_empty(run: DeploymentSession, *, once: bool = False, tuned: bool = False) -> StreamingQuery:
    """Start applyInPandasWithState as PySpark has it, with these schemas and a function that returns each record.

    Its wait for fetches and its partitions are those of the first comparison, or those of `enforce` (`tuned`).
    """
    spark, settings = run.spark, run.settings
    if tuned:
        records = read_requests(spark, settings).coalesce(1)
        return write(_returned(records, settings), settings, "empty", once=once)
    bounds = request_bounds(kafka_source.MAX_REQUESTS_PER_BATCH, MAX_RECORD_BYTES)
    records = read_records(spark, settings, {"subscribe": settings.topics.requests} | bounds | FIRST_FETCH_WAIT)
    with shuffling(spark, FIRST_PARTITIONS):
        return write(_returned(records, settings), settings, "empty", once=once)


def _returned(records: DataFrame, settings: Settings) -> DataFrame:
    answers = (
        records.select(F.col("key").cast("string").alias("bucket"), F.col("value").alias("request"))
        .groupBy("bucket")
        .applyInPandasWithState(_return_records, "answer binary", STATE, "append", GroupStateTimeout.NoTimeout)
    )
    return answers.select(F.lit(settings.topics.decisions).alias("topic"), F.col("answer").alias("value"))


def _return_records(_: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    prepare_worker(__name__)
    for frame in frames:
        yield pd.DataFrame({"answer": frame["request"]})
    state.update((1.0, 1, 1.0, None, None, None, None))


SIDES: dict[str, Callable[..., StreamingQuery]] = {
    PASS_THROUGH: start_pass_through,
    EMPTY: start_empty,
    ENFORCE: start_enforce,
}
BUCKETS = {EMPTY: "user-%d", ENFORCE: BUCKET}
"""The keys of users' buckets."""


def throughput(ground: Ground, size: Size) -> list[Figure]:
    """Measure requests/s by active keys, and the cost of a key compared with the empty function."""
    with batches_of(size.batch):
        taken = _measured(ground, size)
    return [*_rates(size.keys, taken), *_per_key(size.keys, size.batch, taken)]


def _measured(ground: Ground, size: Size) -> dict[tuple[int, str], list[float]]:
    """Return the requests/s of each round, by active keys and side."""
    rounds, backlog, few, seconds = size.keys, size.backlog, size.few, size.seconds / 2
    placed: dict[tuple[int, str], Settings] = {}
    for active in rounds:
        ground.notify(f"throughput: a backlog of {backlog:,} requests of {active:,} users")
        settings = ground.deployment(f"backlog-{active}")
        placed |= {(active, side): elsewhere(settings, ground) for side in SIDES}
        for side, bucket in BUCKETS.items() if active > few else ():
            store_buckets(ground, placed[active, side], active, SIDES[side], bucket)
        fill(settings, backlog, active)
    ground.notify("throughput: warming up")
    for (active, side), settings in placed.items():
        if active <= few:  # with more it would take minutes, and warm up no other code
            drain(ground, elsewhere(settings, ground), SIDES[side], seconds)
    taken: dict[tuple[int, str], list[float]] = {}
    for turn, (active, side) in product(range(max(rounds.values())), placed):
        if turn < rounds[active]:
            uncounted = 0 if active > few and side in BUCKETS else 1
            rate = drain(ground, elsewhere(placed[active, side], ground), SIDES[side], seconds, uncounted)
            taken.setdefault((active, side), []).append(rate)
            ground.notify(f"throughput: round {turn + 1}, {active:,} keys, {side}: {rate:,.0f}/s")
    return taken


def drain(
    ground: Ground, settings: Settings, start: Callable[..., StreamingQuery], seconds: float, uncounted: int = 1
) -> float:
    """Return the requests/s of the batches of a query, without the first `uncounted` ones.

    The query runs for `seconds`, or longer until a batch counts.
    """
    query = start(DeploymentSession.on(ground.spark, settings), once=True)
    began, counted = time.monotonic(), []
    while query.isActive and (time.monotonic() - began < seconds or not counted):
        if time.monotonic() - began > _GIVE_UP_SECONDS:
            raise TimeoutError(f"{query.name}: no batch that counts in {_GIVE_UP_SECONDS:.0f} s")
        time.sleep(0.1)
        counted = batches(query)[uncounted:]
    counted = batches(query)[uncounted:]
    query.stop()
    if query.exception():
        raise query.exception()
    if not counted:
        raise ValueError(f"{query.name}: no batch of the backlog is after the first {uncounted}, which do not count")
    return rate_of(counted)


def _rates(keys: Iterable[int], taken: dict[tuple[int, str], list[float]]) -> Iterator[Figure]:
    for active in keys:
        for side, limit, goal in ((ENFORCE, EMPTY, THROUGHPUT_GOALS.get(active)), (EMPTY, PASS_THROUGH, None)):
            runs, limit_runs = taken[active, side], taken[active, limit]
            what = f"{side}, {active:,} active {'key' if active == 1 else 'keys'}"
            yield Figure("throughput", what, "1/s", tuple(runs), limit, tuple(limit_runs), goal)


def _per_key(keys: Iterable[int], batch: int, taken: dict[tuple[int, str], list[float]]) -> Iterator[Figure]:
    """Yield the cost of one more key in a batch of the same size, from the fewest keys to the most."""
    few, many = min(keys), max(keys)
    if few == many:
        return
    costs = {
        side: tuple(
            (batch / rate - batch / median(taken[few, side])) / (many - few) * 1e6 for rate in taken[many, side]
        )
        for side in (EMPTY, ENFORCE)
    }
    what = f"a further active key in a batch, {few:,} to {many:,}"
    yield Figure("throughput", what, "µs", costs[ENFORCE], EMPTY, costs[EMPTY], PER_KEY_GOAL)
