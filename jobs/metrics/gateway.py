"""The metrics of a running gateway."""

import time
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.collector import Work
from jobs.metrics.families import gateway_families, start_family
from quota.gateway.stats import GatewayStats

NAME = "gateway"
"""The name of the gateway in the label `query` of the start time."""


class GatewayMetrics(Work):
    """Reads the counts of a gateway. Nothing is polled."""

    def __init__(self, stats: GatewayStats, awaited: Callable[[], int]) -> None:
        """Start the metrics of a gateway.

        Args:
            stats: the gateway's counts.
            awaited: returns the number of pending requests for decisions.
        """
        self._stats = stats
        self._awaited = awaited
        self._started_at = time.time()

    def poll(self) -> None:
        """Return at once: the counts are up to date."""

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        yield start_family(NAME, self._started_at)
        yield from gateway_families(self._stats, self._awaited())
