"""Health and readiness of a query."""

import json
import threading
from types import SimpleNamespace

import pytest

from jobs.metrics import queries
from jobs.metrics.batches import FinishedBatch
from jobs.metrics.queries import QueryObserver
from quota.settings import load_settings

SETTINGS = load_settings(["audit.trigger_seconds=10"], environment={})


class Progress:
    """Spark's report of a trigger."""

    def __init__(self, batch, at, ends):
        facts = {"batchId": batch, "timestamp": f"2026-11-25T{at}Z", "numInputRows": 1, "durationMs": {}}
        self.json = json.dumps(facts | {"stateOperators": [], "sources": [{"endOffset": ends}]})


class Query:
    """A query of Spark, with the fields that are polled."""

    def __init__(self, name):
        self.name, self.runId = name, f"run of {name}"
        self.isActive = True
        self.lastProgress = None
        self.does("Initializing sources", in_trigger=False)

    def does(self, message, *, in_trigger=True):
        self.status = {"message": message, "isTriggerActive": in_trigger, "isDataAvailable": in_trigger}

    def finish(self, batch, at, ends=None):
        self.lastProgress = Progress(batch, at, ends)


class Context:
    """Spark's jobs: the number of ended tasks of each run."""

    def __init__(self):
        self.tasks = {}

    def statusTracker(self):  # noqa: N802 as Spark calls it
        return SimpleNamespace(
            getJobIdsForGroup=lambda run: [number for number, task in enumerate(self.tasks) if task == run],
            getActiveJobsIds=lambda: list(range(len(self.tasks))),
            getJobInfo=lambda number: SimpleNamespace(jobId=number, stageIds=[number]),
            getStageInfo=lambda number: SimpleNamespace(
                numCompletedTasks=list(self.tasks.values())[number], numFailedTasks=0
            ),
        )


class Scene:
    """Queries that are watched, and a clock."""

    def __init__(self, *names):
        self.now, self.context, self.stop = 1000.0, Context(), threading.Event()
        self.queries = [Query(name) for name in names]
        self.observer = QueryObserver(SETTINGS, lambda: self.now)
        self.observer.watch(SimpleNamespace(sparkContext=self.context), self.queries, self.stop)
        self.observer.started_at = 1_795_266_000.0
        self.observer.poll()

    def after(self, seconds):
        """Poll each minute for some time, as a service does each second."""
        for _ in range(seconds // 60):
            self.now += 60
            self.observer.poll()
        return self.observer


@pytest.fixture
def scene():
    return Scene("enforce")


@pytest.mark.parametrize(("topic", "is_ready"), [("mutation-requests", False), ("mutation-requests.dora", True)])
def test_a_query_is_not_ready_while_a_transaction_hides_what_it_is_to_read(scene, monkeypatch, topic, is_ready):
    """One on a user's own topic holds up that user alone, who must not decide whether the job is ready."""
    ends = {(topic, 0): 9}
    topics = SimpleNamespace(
        connection="k:9092", offsets=lambda names, *, stable=False: dict.fromkeys(names, 3) if stable else ends
    )
    monkeypatch.setattr(queries, "TopicAdmin", lambda *_: topics)
    monkeypatch.setattr(queries, "_ENDS_SECONDS", 0.0)
    scene.queries[0].finish(3, "12:00:00", {topic: {"0": 3}})
    health, metrics = scene.after(60), queries.QueryMetrics(SETTINGS, scene.observer)
    metrics.poll()
    assert health.ready().ok
    metrics.poll()
    assert (health.live().ok, health.ready().ok) == (True, is_ready)
    if not is_ready:
        hidden = f"the query enforce cannot read all records: a transaction has been open on {topic}-0 since offset 3"
        assert health.ready().reason.startswith(hidden)
    ends.clear()
    metrics.poll()
    assert health.ready().ok


def test_before_its_queries_run_a_service_is_healthy_and_not_ready():
    health = QueryObserver(SETTINGS)
    assert (health.live().ok, health.ready().ok) == (True, False)
    assert health.ready().reason == "it is starting"


OPENING, WAITING, PROCESSING = "Initializing sources", "Waiting for data to arrive", "Processing new data"
STALLED = (
    "the query enforce has made no progress for 660 s, in the batch after 7 ({}); the limit is 600 s and the trigger"
)


@pytest.mark.parametrize(
    ("message", "batch", "minutes", "expected"),
    [
        (OPENING, None, 60, (True, False, f"the query enforce has not finished a batch yet ({OPENING})")),
        (PROCESSING, None, 10, (True, False, f"the query enforce has not finished a batch yet ({PROCESSING})")),
        (WAITING, 0, 1, (True, True, "running since 2026-11-21T13:00:00.000Z: enforce at batch 0")),
        # the limit, since the look that saw the batch begin
        (PROCESSING, 7, 11, (True, True, "running since 2026-11-21T13:00:00.000Z: enforce at batch 7")),
        (PROCESSING, 7, 12, (False, False, STALLED.format(PROCESSING))),
        # its triggers have ceased, although it is idle
        (WAITING, 7, 12, (False, False, STALLED.format(WAITING))),
    ],
)
def test_a_query_is_healthy_until_the_limit_and_ready_once_it_has_finished_a_batch(
    scene, message, batch, minutes, expected
):
    (query,) = scene.queries
    query.does(message, in_trigger=message == PROCESSING)
    if batch is not None:
        query.finish(batch, "12:00:00")
    health = scene.after(minutes * 60)
    assert (health.live().ok, health.ready().ok, health.ready().reason) == expected


@pytest.mark.parametrize(
    ("run", "ok"),
    [
        ("run of enforce", True),
        ("a thread of Python", True),
        ("run of audit", False),
    ],
)
def test_a_batch_of_hours_is_healthy_while_its_own_tasks_end(run, ok):
    """Spark groups the tasks that a batch runs through Python differently."""
    scene = Scene("enforce", "audit")
    for query in scene.queries:
        query.does(PROCESSING)
    scene.queries[1].finish(0, "12:00:00")
    for ended in range(20):
        scene.context.tasks = {run: ended}
        scene.queries[1].finish(ended, "12:00:00")
        scene.after(600)
    assert scene.observer.live().ok is ok


def test_an_idle_query_is_healthy_while_its_triggers_continue(scene):
    """Spark reports every ten seconds that there is nothing to read, under the number of the next batch."""
    (query,) = scene.queries
    query.does("Waiting for data to arrive", in_trigger=False)
    for minute in range(60):
        query.finish(3, f"12:{minute:02}:00")
        assert scene.after(60).live().ok


def test_the_time_between_two_triggers_does_not_count():
    scene = Scene("audit")
    (query,) = scene.queries
    query.finish(3, "12:00:00")
    query.does("Waiting for next trigger", in_trigger=False)
    scene.after(60)
    scene.now += 600
    scene.observer.poll()
    assert scene.observer.live().ok  # 610 s are allowed
    assert not scene.after(60).live().ok


def test_a_spark_that_does_not_answer_is_unhealthy_after_the_limit(scene):
    """A poll of it hangs, and no other one follows."""
    (query,) = scene.queries
    query.finish(3, "12:00:00")
    query.does("Processing new data")
    scene.after(60)
    scene.now += 600
    assert scene.observer.live().ok
    scene.now += 1
    assert not scene.observer.live().ok


def test_an_ended_query_is_unhealthy_unless_its_end_was_requested(scene):
    (query,) = scene.queries
    query.finish(3, "12:00:00")
    query.isActive = False
    health = scene.after(60)
    assert (health.live().ok, health.live().reason) == (False, "the query enforce has ended")
    assert not health.ready().ok
    scene.stop.set()
    assert (health.live().ok, health.ready().ok) == (True, False)
    assert health.ready().reason == "it is stopping"


PROGRESS = {
    "batchId": 41,
    "timestamp": "2026-11-22T04:00:00.250Z",
    "durationMs": {"addBatch": 98, "latestOffset": 3, "triggerExecution": 130},
    "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 1000}, {"numRowsTotal": 2, "memoryUsedBytes": 24}],
    "sources": [
        {"startOffset": {"requests": {"0": 3}}, "endOffset": {"requests": {"0": 5, "1": 9}, "requests.bob": {"0": 1}}}
    ],
}
ENDED_AT = 1_795_320_000.38
"""2026-11-22T04:00:00Z, 250 ms, and the 130 that the batch took."""


def test_a_batch_is_read():
    progress = FinishedBatch.read(PROGRESS)
    assert progress.batch == 41
    assert round(progress.ended_at, 3) == ENDED_AT
    assert progress.phases == {"addBatch": 0.098, "latestOffset": 0.003, "triggerExecution": 0.13}
    assert progress.positions == {("requests", 0): 5, ("requests", 1): 9, ("requests.bob", 0): 1}
    assert (progress.state_rows, progress.state_bytes) == (9, 1024)


def test_a_query_without_state_reports_none_and_what_has_read_no_topic_has_no_position():
    table = {"sourceVersion": 1, "reservoirId": "5ba3", "reservoirVersion": 7, "index": -1, "isStartingVersion": False}
    sources = [{"startOffset": None, "endOffset": None}, {"endOffset": table}]
    progress = FinishedBatch.read({**PROGRESS, "stateOperators": [], "sources": sources})
    assert (progress.state_rows, progress.state_bytes, progress.positions) == (None, None, {})


def test_the_lag_counts_the_records_after_the_batch():
    """One partition has two more, another none, as its end is older; the end of a third is unknown, and one is new."""
    progress = FinishedBatch.read(PROGRESS)
    assert progress.lag({("requests", 0): 7, ("requests", 1): 1, ("requests", 2): 50}) == 2
