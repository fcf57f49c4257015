"""The metrics of running queries: their last batches, and the end offsets of the topics that they read."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.collector import MetricsSource
from jobs.metrics.families import family, query_families
from jobs.metrics.query_observer import QueryObserver
from jobs.metrics.query_progress import QueryView
from quota.kafka.reading import EndOffsets, Partition
from quota.kafka.timing import Every
from quota.settings import Settings

_ENDS_SECONDS = 5.0


class QueryMetrics(MetricsSource):
    """The metrics of observed queries."""

    def __init__(self, settings: Settings, observer: QueryObserver) -> None:
        self.upkeep_failures: Counter[str] = Counter()
        """The failures of the upkeep by table, which the queries count."""
        self._settings = settings
        self._observer = observer
        self._ends = EndOffsets(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._fetched: Mapping[str, Mapping[Partition, int]] = {}
        self._fetch_ends = Every(_ENDS_SECONDS)

    def poll(self) -> None:
        """Fetch the end offsets of what the queries read, if they are due."""
        if self._fetch_ends.is_due():
            self._fetched = {
                name: self._ends.fetch(seen.progress.positions.keys() if seen.progress else ())
                for name, seen in self._observer.observations.items()
            }

    def families(self) -> Iterator[Family]:
        """Return the metrics as of the last observations."""
        views = {
            name: QueryView(
                self._observer.started_at,
                getattr(self._settings, name).trigger_seconds,
                seen.progress,
                self._fetched.get(name, {}),
                seen.in_trigger and seen.has_data,
            )
            for name, seen in self._observer.observations.items()
        }
        yield from query_families(views)
        yield family("mutation_quota_upkeep_failures_total", self.upkeep_failures)
