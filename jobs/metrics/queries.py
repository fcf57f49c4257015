"""Running queries: one poll observes them, and the monitors, the metrics and the health of a job share the result."""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prometheus_client.metrics_core import Metric as Family
from pyspark import StatusTracker
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.metrics.batches import FinishedBatch, QueryView
from jobs.metrics.collector import MetricsSource
from jobs.metrics.endpoint import STALLED_SECONDS, STARTING, STOPPING, Health, ProbeResult
from jobs.metrics.families import family, query_families
from quota.kafka.reading import Partition
from quota.kafka.timing import Every
from quota.kafka.topics.topic_admin import OpenTransactions, TopicAdmin
from quota.settings import Settings
from quota.text import format_time

_ENDS_SECONDS = 5.0

_INITIALIZING = "Initializing sources"
"""Spark's message before the first trigger of a query."""

_Tasks = frozenset[tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class QueryObservation:
    """A query as of the last poll. It makes progress if any of the values that are compared changes."""

    is_active: bool = True
    message: str = _INITIALIZING
    """Its activity, in Spark's words."""
    in_trigger: bool = False
    progress_at: str | None = None
    """The start of the last trigger that Spark reported. Spark reports triggers without data only every 10 s."""
    batch: int | None = None
    """The last batch that Spark reported."""
    tasks: _Tasks = frozenset()
    """The finished tasks by job and stage; only read if nothing else has changed."""
    has_data: bool = field(default=False, compare=False)
    has_checkpoint: bool = field(default=False, compare=False)
    """Whether it has finished a batch with records, in this run or an earlier one."""
    progress: FinishedBatch | None = field(default=None, compare=False)
    """The last batch; None before the first one of this run."""
    changed_at: float = field(default=0.0, compare=False)
    """The time of its last progress on a monotonic clock [s]."""

    @property
    def has_started(self) -> bool:
        """Whether its sources are open. Until then it is starting, which may take any time."""
        return self.progress_at is not None or self.in_trigger or self.message != _INITIALIZING


class QueryObserver(Health):
    """The observations of queries by their names, which are empty while the job is starting, and the health by them.

    A Spark listener would receive every batch through a Py4J server in this process, which slows down each batch. The
    thread that runs the queries polls: if the JVM does not respond, the observations do not change.

    A query makes progress when its batch, its phase or its triggers change, or when a task of its batch finishes. So a
    batch may take any time while its tasks finish, and an idle query makes progress through its triggers.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self.observations: Mapping[str, QueryObservation] = {}
        self.started_at = 0.0
        """The start of the job [s since the epoch]."""
        self.stop = threading.Event()
        """Set before the queries are stopped."""
        self.held_back: Mapping[str, str] = {}
        """Which transaction hides records from a query, by its name."""
        self.clock = clock
        self._queries: Sequence[StreamingQuery] = ()
        self._tracker: StatusTracker

    def watch(self, spark: SparkSession, queries: Sequence[StreamingQuery], stop: threading.Event) -> None:
        """Observe these queries from now on; each is named after its section of the settings."""
        self.started_at, now = time.time(), self.clock()
        self.observations = {query.name: QueryObservation(changed_at=now) for query in queries}
        self._tracker = spark.sparkContext.statusTracker()
        self._queries, self.stop = queries, stop

    def poll(self) -> None:
        """Observe each query; called about once a second."""
        self.observations = {query.name: self._observe(query) for query in self._queries}

    def _observe(self, query: StreamingQuery) -> QueryObservation:
        before, status, last = self.observations[query.name], query.status, query.lastProgress
        progress = None if last is None else json.loads(last.json)
        seen = QueryObservation(
            is_active=query.isActive,
            message=status["message"],
            in_trigger=status["isTriggerActive"],
            has_data=status["isDataAvailable"],
            progress_at=progress and progress["timestamp"],
            batch=progress and progress["batchId"],
            has_checkpoint=bool(progress and (progress["batchId"] or progress["numInputRows"])),
            progress=progress and FinishedBatch.read(progress),
        )
        if seen.in_trigger and seen == replace(before, tasks=seen.tasks):
            seen = replace(seen, tasks=self._ended_tasks(query))
        return replace(seen, changed_at=before.changed_at if seen == before else self.clock())

    def _ended_tasks(self, query: StreamingQuery) -> _Tasks:
        """Return the finished tasks of running jobs, except those of other queries.

        Spark groups the jobs of a query by its run; jobs that a batch starts from Python are in no group.
        """
        tracker = self._tracker
        others = [str(other.runId) for other in self._queries if other is not query]
        foreign = {job for run in others for job in tracker.getJobIdsForGroup(run)}
        jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds() if job not in foreign]
        stages = [(job.jobId, stage) for job in jobs if job for stage in job.stageIds]
        infos = [(job, stage, tracker.getStageInfo(stage)) for job, stage in stages]
        return frozenset(
            (job, stage, info.numCompletedTasks, info.numFailedTasks) for job, stage, info in infos if info
        )

    def live(self) -> ProbeResult:
        """Return whether all queries make progress."""
        progressing = ProbeResult(True, f"making progress: {', '.join(self.observations)}")
        return self._exception(is_ready=True) or self._problem(self._stalled) or progressing

    def ready(self) -> ProbeResult:
        """Return whether all queries make progress, and have finished a batch or found nothing to read."""
        batches = ", ".join(f"{name} at batch {seen.batch}" for name, seen in self.observations.items())
        return (
            self._exception(is_ready=False)
            or self._problem(self._not_ready)
            or ProbeResult(True, f"running since {format_time(round(self.started_at * 1000))}: {batches}")
        )

    def _exception(self, *, is_ready: bool) -> ProbeResult | None:
        """Return the answer of a service without running queries."""
        if not self.observations:
            return ProbeResult(is_ready, STARTING)
        return ProbeResult(is_ready, STOPPING) if self.stop.is_set() else None

    def _problem(self, problem_of: Callable[[str, QueryObservation], str | None]) -> ProbeResult | None:
        problems = (problem_of(name, seen) for name, seen in self.observations.items())
        return next((ProbeResult(False, f"the query {problem}") for problem in problems if problem), None)

    def _stalled(self, name: str, seen: QueryObservation) -> str | None:
        silence = self.clock() - seen.changed_at
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
        held = self.held_back.get(name)
        return self._stalled(name, seen) or (f"{name} cannot read all records: {held}" if held else None)


class QueryMetrics(MetricsSource):
    """The metrics of observed queries."""

    def __init__(self, settings: Settings, observer: QueryObserver) -> None:
        self.upkeep_failures: Counter[str] = Counter()
        """The failures of the upkeep by table, which the queries count."""
        self._settings = settings
        self._observer = observer
        self._topics = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._open: defaultdict[str, OpenTransactions] = defaultdict(lambda: OpenTransactions(self._topics))
        self._fetched: Mapping[str, Mapping[Partition, int]] = {}
        self._fetch_ends = Every(_ENDS_SECONDS)

    def poll(self) -> None:
        """Fetch the end offsets of what the queries read, if they are due, and look for transactions before them.

        The topic of a user is left out: it would tell a probe of the job what that user does.
        """
        if not self._fetch_ends.is_due():
            return
        self._fetched = {
            name: self._topics.offsets(seen.progress.positions.keys() if seen.progress else ())
            for name, seen in self._observer.observations.items()
        }
        own = self._settings.topics.names
        self._observer.held_back = {
            name: self._open[name].look({each: end for each, end in ends.items() if each[0] in own})
            for name, ends in self._fetched.items()
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
