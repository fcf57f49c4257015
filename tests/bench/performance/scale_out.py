"""Throughput on Spark standalone, with one worker process and with two."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from jobs.enforce import start_enforce
from tests.bench.performance.backlog import fill
from tests.bench.performance.figure import Figure
from tests.bench.performance.ground import elsewhere, ground, with_batches
from tests.bench.performance.throughput import drain
from tests.standalone import Standalone

USERS = 1000
CHECKOUT = Path(__file__).parents[3]


def scale_out(backlog: int, rounds: int, seconds: float, tell: Callable[[str], None]) -> list[Figure]:
    """Requests a second of one and of two workers of a core each, which alternate."""
    taken: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(rounds):
        for workers, rates in taken.items():
            rates.append(_drained(workers, backlog, seconds))
            tell(f"scale out: round {turn + 1}, {workers} workers: {rates[-1]:,.0f}/s")
    one, two = (tuple(taken[workers]) for workers in (1, 2))
    return [Figure("scale out", "two workers", "1/s", two, "one worker", one)]


def _drained(workers: int, backlog: int, seconds: float) -> float:
    given = [f"spark.conf.spark.executorEnv.PYTHONPATH={CHECKOUT}"]
    with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder:
        logs = Path(folder, "cluster")
        logs.mkdir()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        with (
            Standalone(logs, workers) as cluster,
            ground(Path(folder), print, f"spark.master={cluster.url}", *given) as place,
        ):
            settings = with_batches(place.deployment("scale"), backlog // 4)
            fill(settings, backlog, USERS)
            return drain(place, elsewhere(settings, place), start_enforce, seconds)
