"""The metrics of a running observer of request logs."""

import time
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.collector import Work
from jobs.metrics.families import observer_families, start_family
from jobs.metrics.stats import FollowStats

NAME = "observe"
"""The name of the observer in the label `query` of the start time."""


class ObserverMetrics(Work):
    """Reads the counts of an observer."""

    def __init__(self, stats: FollowStats) -> None:
        self._stats = stats
        self._started_at = time.time()

    def poll(self) -> None:
        """Return at once: the counts are up to date."""

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        yield start_family(NAME, self._started_at)
        yield from observer_families(self._stats)
