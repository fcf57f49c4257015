"""The health of running queries, from their progress."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from jobs.metrics.health.probe import STALLED_SECONDS, STARTING, STOPPING, Answer, Health
from quota.settings import Settings

_INITIALIZING = "Initializing sources"
"""Spark's message before the first trigger of a query."""

_Tasks = frozenset[tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class QueryObservation:
    """An observation of a query. The query makes progress if any of these values changes."""

    is_active: bool
    message: str = ""
    """Its activity, in Spark's words."""
    in_trigger: bool = False
    progress_at: str | None = None
    """The start of the last trigger that Spark reported. Spark reports triggers without data only every 10 s."""
    batch: int | None = None
    """The last batch that Spark reported."""
    tasks: _Tasks = frozenset()
    """The finished tasks by job and stage; only read if nothing else has changed."""

    @property
    def has_started(self) -> bool:
        """Whether its sources are open. Until then it is starting, which may take any time."""
        return self.progress_at is not None or self.in_trigger or self.message != _INITIALIZING


@dataclass(frozen=True, slots=True)
class QueryWatch:
    """The last observation of a query, and the time of its last progress on a monotonic clock [s]."""

    name: str
    limit_seconds: float
    observation: QueryObservation
    changed_at: float

    def observe(self, observation: QueryObservation, now: float) -> "QueryWatch":
        """Return the watch after another observation."""
        return replace(
            self, observation=observation, changed_at=self.changed_at if observation == self.observation else now
        )

    def live(self, now: float) -> Answer:
        """Return whether the query makes progress."""
        silence = now - self.changed_at
        if not self.observation.is_active:
            return Answer(False, f"the query {self.name} has ended")
        if self.observation.has_started and silence > self.limit_seconds:
            after = "its first batch" if self.observation.batch is None else f"the batch after {self.observation.batch}"
            return Answer(
                False,
                f"the query {self.name} has made no progress for {silence:.0f} s, in {after} "
                f"({self.observation.message}); the limit is {self.limit_seconds:.0f} s and the trigger",
            )
        return Answer(True, f"the query {self.name} makes progress")

    def ready(self, now: float) -> Answer:
        """Return whether the query makes progress and has finished a batch, or found nothing to read."""
        alive = self.live(now)
        if not alive.ok:
            return alive
        if self.observation.progress_at is None:
            return Answer(False, f"the query {self.name} has not finished a batch yet ({self.observation.message})")
        return Answer(True, f"the query {self.name} has finished batch {self.observation.batch}")


class QueryHealth(Health):
    """Observes queries once per second.

    A query makes progress when its batch, its phase or its triggers change, or when a task of its batch finishes. So a
    batch may take any time while its tasks finish, and an idle query makes progress through its triggers. If the JVM
    does not respond, the observation does not change.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without queries, while the service is starting.

        Args:
            settings: the settings of the service.
            clock: returns a monotonic time [s].
        """
        self._settings = settings
        self._clock = clock
        self._context: SparkContext | None = None
        self._queries: Sequence[StreamingQuery] = ()
        self._watches: Mapping[str, QueryWatch] = {}
        self._stop = threading.Event()

    def watch(self, context: SparkContext, queries: Sequence[StreamingQuery], stop: threading.Event) -> None:
        """Observe these queries from now on; a query is named after its section of the settings.

        Args:
            context: the Spark context that runs them.
            queries: the running queries.
            stop: set before they are stopped.
        """
        now, unseen = self._clock(), QueryObservation(is_active=True, message=_INITIALIZING)
        self._watches = {
            query.name: QueryWatch(
                query.name, STALLED_SECONDS + getattr(self._settings, query.name).trigger_seconds, unseen, now
            )
            for query in queries
        }
        self._context, self._stop = context, stop
        self._queries = queries

    def poll(self) -> None:
        """Observe each query."""
        for query in self._queries:
            before = self._watches[query.name]
            observation = _observe(query)
            if observation.in_trigger and observation == replace(before.observation, tasks=observation.tasks):
                observation = replace(observation, tasks=self._ended_tasks(query))
            self._watches = {**self._watches, query.name: before.observe(observation, self._clock())}

    def live(self) -> Answer:
        """Return whether all queries make progress."""
        return self._first_problem(QueryWatch.live) or Answer(True, f"making progress: {', '.join(self._watches)}")

    def ready(self) -> Answer:
        """Return whether all queries have finished a batch, or found nothing to read."""
        if not self._watches:
            return Answer(False, STARTING)
        if self._stop.is_set():
            return Answer(False, STOPPING)
        batches = ", ".join(f"{name} at batch {each.observation.batch}" for name, each in self._watches.items())
        return self._first_problem(QueryWatch.ready) or Answer(True, f"running: {batches}")

    def _first_problem(self, check: Callable[[QueryWatch, float], Answer]) -> Answer | None:
        if not self._watches:
            return Answer(True, STARTING)
        if self._stop.is_set():
            return Answer(True, STOPPING)
        now = self._clock()
        return next((each for each in (check(watch, now) for watch in self._watches.values()) if not each.ok), None)

    def _ended_tasks(self, query: StreamingQuery) -> _Tasks:
        """Return the finished tasks of running jobs, except those of other queries.

        Spark groups the jobs of a query by its run; jobs that a batch starts from Python are in no group.
        """
        if self._context is None:
            return frozenset()
        tracker = self._context.statusTracker()
        others = [str(each.runId) for each in self._queries if each is not query]
        foreign = {job for run in others for job in tracker.getJobIdsForGroup(run)}
        jobs = [tracker.getJobInfo(each) for each in tracker.getActiveJobsIds() if each not in foreign]
        stages = [(job.jobId, stage) for job in jobs if job for stage in job.stageIds]
        infos = [(job, stage, tracker.getStageInfo(stage)) for job, stage in stages]
        return frozenset(
            (job, stage, info.numCompletedTasks, info.numFailedTasks) for job, stage, info in infos if info
        )


def _observe(query: StreamingQuery) -> QueryObservation:
    status: Mapping[str, Any] = query.status
    progress = query.lastProgress
    return QueryObservation(
        is_active=query.isActive,
        message=status["message"],
        in_trigger=status["isTriggerActive"],
        progress_at=None if progress is None else progress.timestamp,
        batch=None if progress is None else progress.batchId,
    )
