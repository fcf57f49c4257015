"""The metrics of a running follower of request logs."""

import time
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.collector import Work
from jobs.metrics.families import observer_families, start_family
from quota.observation.stats import FollowStats

NAME = "observe"
"""The name of the follower in the metrics of jobs."""


class ObserverMetrics(Work):
    """Reads the counts of a follower."""

    def __init__(self, stats: FollowStats) -> None:
        self._stats = stats
        self._started_at = time.time()

    def poll(self) -> None:
        """Do nothing: the counts are up to date."""

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        yield start_family(NAME, self._started_at)
        yield from observer_families(self._stats)
