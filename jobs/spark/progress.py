"""Shows the start of Spark and the progress of a Spark job on a terminal."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from jobs.background import background
from jobs.spark.session import session
from quota.settings import Settings

T = TypeVar("T")

_UPDATE_SECONDS = 0.2


@contextmanager
def command_session(
    settings: Settings, name: str, log: Path | None = None, *, delta: bool = False
) -> Iterator[SparkSession]:
    """Provide a session as `session` does, for a command that prints a result: standard error shows the start.

    Nothing is shown if standard error is not a terminal.
    """
    with ExitStack() as stack:
        with Console(stderr=True).status("starting Spark"):
            spark = stack.enter_context(session(settings, name, log, delta=delta))
        yield spark


def with_progress(spark: SparkSession, description: str, work: Callable[[], T]) -> T:
    """Return the result of `work`, showing a progress bar meanwhile if standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return work()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, transient=True) as progress,
        background(lambda stop: _update_bar(spark, progress, description, stop), "progress"),
    ):
        return work()


def _update_bar(spark: SparkSession, progress: Progress, description: str, stop: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    bar = progress.add_task(description, total=None)
    while not stop.wait(_UPDATE_SECONDS):
        stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
        tasks = sum(stage.numTasks for stage in stages if stage)
        completed = sum(stage.numCompletedTasks for stage in stages if stage)
        progress.update(bar, total=tasks or None, completed=completed)
