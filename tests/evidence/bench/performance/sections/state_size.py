"""The cost of a batch by the number of stored buckets, and the size of a bucket."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from jobs.enforce.query import start_enforce
from jobs.spark.session import jvm_pid
from jobs.storage.run import Run
from quota.settings import Settings
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure, Goal
from tests.evidence.bench.performance.ground import Ground, batches, with_batches
from tests.evidence.bench.performance.size import Size
from tests.evidence.bench.performance.store import store_buckets
from tests.evidence.machine import peak_mebibytes

WARM = 2
"""Number of first batches, which load the store and do not count."""

GOAL = Goal(1.25)


def state_size(ground: Ground, size: Size) -> list[Figure]:
    """Measure batch times by the number of buckets, compared with the smallest; the numbers alternate."""
    deployments, active = {}, size.active
    for buckets in size.buckets:
        began = time.monotonic()
        deployments[buckets] = ground.deployment(f"state-{buckets}")
        store_buckets(ground, deployments[buckets], buckets)
        ground.notify(f"state: {buckets:,} buckets made in {time.monotonic() - began:.0f} s")
    for buckets, settings in deployments.items() if size.warm else ():
        _measured(ground, settings, buckets, active, size.batches)
    taken: dict[int, list[float]] = {buckets: [] for buckets in size.buckets}
    for turn in range(min(size.rounds, 2)):
        for buckets, settings in list(deployments.items())[:: -1 if turn % 2 else 1]:
            times = _measured(ground, settings, buckets, active, size.batches)
            taken[buckets] += times
            middle = sorted(times)[len(times) // 2]
            ground.notify(f"state: round {turn + 1}, {buckets:,} buckets: {middle:.0f} ms a batch")
    jvm, worker = peak_mebibytes(jvm_pid(ground.spark))
    return [
        *_times(size.buckets, active, taken),
        *_bytes(deployments),
        Figure("state", "peak memory of the JVM", "MiB", (jvm,)),
        Figure("state", "peak memory of a Python worker", "MiB", (worker,)),
    ]


def _measured(ground: Ground, settings: Settings, size: int, active: int, count: int) -> list[float]:
    """Return the times of batches with a request of each active key, ms; the users' numbers are far apart."""
    step = max(size // active, 1)
    for _ in range(WARM + count):
        fill(settings, active, active, every=step)
    query = start_enforce(Run.on(ground.spark, with_batches(settings, active)), once=True)
    query.awaitTermination()
    return [seconds * 1000 for _, seconds in batches(query)[WARM:]]


def _times(sizes: Sequence[int], active: int, taken: dict[int, list[float]]) -> Iterator[Figure]:
    smallest = min(sizes)
    for size in sizes:
        limit = (f"{smallest:,} buckets", tuple(taken[smallest])) if size != smallest else ("", ())
        goal = GOAL if size == max(sizes) else None
        what = f"a batch of {active:,} active keys, {size:,} buckets"
        yield Figure("state", what, "ms", tuple(taken[size]), *limit, goal)


def _bytes(deployments: dict[int, Settings]) -> Iterator[Figure]:
    for size, settings in deployments.items():
        state = Path(settings.storage.root, "checkpoints", "enforce")
        stored = sum(file.stat().st_size for file in state.rglob("*") if file.is_file() and "state" in file.parts)
        yield Figure("state", f"on disk, per bucket, with {size:,} buckets", "bytes", (stored / size,))
