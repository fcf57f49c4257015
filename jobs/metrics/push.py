"""The metrics of a running service that pushes quotas to a cluster."""

import time
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.collector import Work
from jobs.metrics.families import push_families, start_family
from jobs.metrics.stats import PushStats

NAME = "push"
"""The name of the service in the label `query` of the start time."""


class PushMetrics(Work):
    """Reads the counts of the service. Nothing is polled."""

    def __init__(self, stats: PushStats) -> None:
        self._stats = stats
        self._started_at = time.time()

    def poll(self) -> None:
        """Return at once: the counts are up to date."""

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        yield start_family(NAME, self._started_at)
        yield from push_families(self._stats)
