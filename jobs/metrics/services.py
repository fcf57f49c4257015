"""The metrics of services whose counts are always up to date: the gateway, the observer, and the push of quotas."""

import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.collector import Work
from jobs.metrics.families import start_family


class ServiceMetrics(Work):
    """The metrics of a service that are made of its counts."""

    def __init__(self, name: str, families: Callable[[], Iterable[Family]]) -> None:
        """Start the metrics; the name is the value of the label `query` of the start time."""
        self._name = name
        self._families = families
        self._started_at = time.time()

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        yield start_family(self._name, self._started_at)
        yield from self._families()
