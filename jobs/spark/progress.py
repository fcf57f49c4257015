"""Tells on standard error that Spark starts, and how far its job is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from jobs.background import background
from jobs.progress import Tell, progress
from jobs.spark.session import session
from quota.settings import Settings

T = TypeVar("T")

_UPDATE_SECONDS = 0.2


@contextmanager
def command_session(settings: Settings, name: str, log: Path | None = None) -> Iterator[SparkSession]:
    """Provide a session as `session` does, for a command that prints a result: standard error tells of the start."""
    with ExitStack() as stack:
        with progress("starting Spark"):
            spark = stack.enter_context(session(settings, name, log))
        yield spark


def with_progress(spark: SparkSession, description: str, work: Callable[[], T]) -> T:
    """Return the result of `work`; standard error tells how many of the tasks of its stages are done."""
    with (
        progress(description) as tell,
        background(lambda stop: _count_tasks(spark, tell, description, stop), "count-tasks"),
    ):
        return work()


def _count_tasks(spark: SparkSession, tell: Tell, description: str, stop: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    with suppress(Py4JError, OSError):  # the JVM may have exited, which the work reports
        while not stop.wait(_UPDATE_SECONDS):
            stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
            tasks = sum(stage.numTasks for stage in stages if stage)
            completed = sum(stage.numCompletedTasks for stage in stages if stage)
            if tasks:
                tell(f"{description}: {completed:,} of {tasks:,} tasks")
