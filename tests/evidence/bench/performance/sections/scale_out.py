"""Draining a backlog on Spark standalone, with one worker and with two."""

import os
from pathlib import Path

from jobs.enforce.query import start_enforce
from jobs.storage.run import Run
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.ground import batches, ground, with_batches, working_folder
from tests.evidence.command import Notify
from tests.support.checkout import CHECKOUT
from tests.support.standalone import Standalone

USERS = 1000
BATCHES = 6
WARM = 3
"""Number of first batches, which do not count."""


def scale_out(address: str, backlog: int, notify: Notify) -> list[Figure]:
    """Measure requests/s of the batches, with one and with two workers of one core each."""
    one, two = (_drained(address, workers, backlog, notify) for workers in (1, 2))
    return [Figure("scale out", "two workers", "1/s", two, "one worker", one)]


def _drained(address: str, workers: int, backlog: int, notify: Notify) -> tuple[float, ...]:
    importing = f"spark.conf.spark.executorEnv.PYTHONPATH={CHECKOUT}"
    with working_folder() as folder:
        logs = Path(folder, "cluster")
        logs.mkdir()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        with (
            Standalone(logs, workers) as cluster,
            ground(address, notify, f"spark.master={cluster.url}", importing, "enforce.state_partitions=2") as place,
        ):
            settings = with_batches(place.deployment("scale"), backlog // BATCHES)
            fill(settings, backlog, USERS)
            query = start_enforce(Run.on(place.spark, settings), once=True)
            query.awaitTermination()
            rates = tuple(
                rows / seconds for rows, seconds in batches(query)[WARM:BATCHES]
            )  # a smaller batch may follow
    notify(f"scale out: {workers} workers: {', '.join(f'{rate:,.0f}' for rate in rates)}/s")
    return rates
