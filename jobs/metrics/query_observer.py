"""Observes streaming queries: one poll, whose result the monitors, the metrics and the health of a job share."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark import StatusTracker
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.metrics.query_progress import QueryProgress

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
    progress: QueryProgress | None = field(default=None, compare=False)
    """The last batch; None before the first one of this run."""
    changed_at: float = field(default=0.0, compare=False)
    """The time of its last progress on a monotonic clock [s]."""

    @property
    def has_started(self) -> bool:
        """Whether its sources are open. Until then it is starting, which may take any time."""
        return self.progress_at is not None or self.in_trigger or self.message != _INITIALIZING


class QueryObserver:
    """The observations of queries by their names; empty while the job is starting.

    A Spark listener would receive every batch through a Py4J server in this process, which slows down each batch. The
    thread that runs the queries polls: if the JVM does not respond, the observations do not change.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.observations: Mapping[str, QueryObservation] = {}
        self.started_at = 0.0
        """The start of the job [s since the epoch]."""
        self.stop = threading.Event()
        """Set before the queries are stopped."""
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
            progress=progress and QueryProgress.read(progress),
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
