"""Draining a backlog: the cost by the number of active keys in a batch."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from unittest import mock

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
    Ground,
    decide_waiting,
    shuffling,
    write,
)
from tests.evidence.bench.performance.java_query import JAVA, start_java
from tests.evidence.bench.performance.size import Size
from tests.support.deployment import with_sections

EMPTY, ENFORCE = "empty function", "enforce"
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


SIDES: dict[str, Callable[..., StreamingQuery]] = {EMPTY: start_empty, JAVA: start_java, ENFORCE: start_enforce}


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
        if active > few:
            fill(settings, size.batch, active)
            for side, start in SIDES.items():
                decide_waiting(DeploymentSession.on(ground.spark, placed[active, side]), start)
        fill(settings, backlog, active)
    ground.notify("throughput: warming up")
    for (active, side), settings in placed.items():
        if active <= few:  # with more it would take minutes, and warm up no other code
            drain(ground, elsewhere(settings, ground), SIDES[side], seconds)
    taken: dict[tuple[int, str], list[float]] = {}
    for turn, (active, side) in product(range(max(rounds.values())), placed):
        if turn < rounds[active]:
            uncounted = 0 if active > few else 1
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


def batches(query: StreamingQuery) -> list[tuple[int, float]]:
    """Return the rows and the seconds of each batch so far, without empty ones."""
    return [
        (progress["numInputRows"], progress["durationMs"]["triggerExecution"] / 1000)
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]


def rate_of(counted: Sequence[tuple[int, float]]) -> float:
    """Return the rows/s of batches, given the rows and the seconds of each."""
    return sum(rows for rows, _ in counted) / sum(seconds for _, seconds in counted)


@contextmanager
def batches_of(max_requests: int) -> Iterator[None]:
    """Inside the block, queries have batches of at most `max_requests` requests."""
    with mock.patch.object(kafka_source, "MAX_REQUESTS_PER_BATCH", max_requests):
        yield


def elsewhere(settings: Settings, ground: Ground) -> Settings:
    """Return a deployment with the same topics and offsets: its storage root is a copy."""
    root = Path(settings.storage.root)
    copy = mkdtemp(dir=ground.folder)
    if root.exists():
        shutil.copytree(root, copy, dirs_exist_ok=True)
    return with_sections(settings, storage={"root": copy})


def _rates(keys: Iterable[int], taken: dict[tuple[int, str], list[float]]) -> Iterator[Figure]:
    for active in keys:
        compared = [(ENFORCE, EMPTY, THROUGHPUT_GOALS.get(active)), (JAVA, ENFORCE, None)]
        for side, limit, goal in compared:
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
