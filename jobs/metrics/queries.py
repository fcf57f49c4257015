"""The metrics and the health of running queries: their last batches, and the lag in the topics that they read."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.collector import MetricsSource
from jobs.metrics.families import family, query_families
from jobs.metrics.health.probe import STALLED_SECONDS, STARTING, STOPPING, Health, ProbeResult
from jobs.metrics.query_observer import QueryObservation, QueryObserver
from jobs.metrics.query_progress import QueryView
from quota.kafka.reading import Partition
from quota.kafka.timing import Every
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings

_ENDS_SECONDS = 5.0


class QueryMetrics(MetricsSource):
    """The metrics of observed queries."""

    def __init__(self, settings: Settings, observer: QueryObserver) -> None:
        self.upkeep_failures: Counter[str] = Counter()
        """The failures of the upkeep by table, which the queries count."""
        self._settings = settings
        self._observer = observer
        self._topics = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._fetched: Mapping[str, Mapping[Partition, int]] = {}
        self._fetch_ends = Every(_ENDS_SECONDS)

    def poll(self) -> None:
        """Fetch the end offsets of what the queries read, if they are due."""
        if self._fetch_ends.is_due():
            self._fetched = {
                name: self._topics.offsets(seen.progress.positions.keys() if seen.progress else ())
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


class QueryHealth(Health):
    """Checks the progress of observed queries.

    A query makes progress when its batch, its phase or its triggers change, or when a task of its batch finishes. So a
    batch may take any time while its tasks finish, and an idle query makes progress through its triggers. If the JVM
    does not respond, the observation does not change.
    """

    def __init__(self, settings: Settings, observer: QueryObserver) -> None:
        self._settings = settings
        self._observer = observer

    def live(self) -> ProbeResult:
        """Return whether all queries make progress."""
        progressing = ProbeResult(True, f"making progress: {', '.join(self._observer.observations)}")
        return self._exception(is_ready=True) or self._problem(self._stalled) or progressing

    def ready(self) -> ProbeResult:
        """Return whether all queries make progress, and have finished a batch or found nothing to read."""
        batches = ", ".join(f"{name} at batch {seen.batch}" for name, seen in self._observer.observations.items())
        return (
            self._exception(is_ready=False)
            or self._problem(self._not_ready)
            or ProbeResult(True, f"running: {batches}")
        )

    def _exception(self, *, is_ready: bool) -> ProbeResult | None:
        """Return the answer of a service without running queries."""
        if not self._observer.observations:
            return ProbeResult(is_ready, STARTING)
        return ProbeResult(is_ready, STOPPING) if self._observer.stop.is_set() else None

    def _problem(self, problem_of: Callable[[str, QueryObservation], str | None]) -> ProbeResult | None:
        problems = (problem_of(name, seen) for name, seen in self._observer.observations.items())
        return next((ProbeResult(False, f"the query {problem}") for problem in problems if problem), None)

    def _stalled(self, name: str, seen: QueryObservation) -> str | None:
        silence = self._observer.clock() - seen.changed_at
        limit = STALLED_SECONDS + getattr(self._settings, name).trigger_seconds
        if not seen.is_active:
            return f"{name} has ended"
        if not seen.has_started or silence <= limit:
            return None
        after = "its first batch" if seen.batch is None else f"the batch after {seen.batch}"
        return (
            f"{name} has made no progress for {silence:.0f} s, in {after} ({seen.message}); the limit is {limit:.0f} s "
            "and the trigger"
        )

    def _not_ready(self, name: str, seen: QueryObservation) -> str | None:
        if seen.progress_at is None:
            return self._stalled(name, seen) or f"{name} has not finished a batch yet ({seen.message})"
        return self._stalled(name, seen)
