"""Progress of a Spark job, for whoever waits for it at a terminal."""

import threading
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")

_LOOK_SECONDS = 0.2


def with_progress(spark: SparkSession, what: str, work: Callable[[], T]) -> T:
    """Do some work of Spark's, with a bar on standard error if that is a terminal; Ctrl-C ends the work, too."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return work()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    done = threading.Event()
    with Progress(*columns, console=console, transient=True) as progress:
        shower = threading.Thread(target=_show, args=(spark, progress, what, done), daemon=True)
        shower.start()
        try:
            return work()
        finally:
            done.set()
            shower.join()


def _show(spark: SparkSession, progress: Progress, what: str, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    bar = progress.add_task(what, total=None)
    while not done.wait(_LOOK_SECONDS):
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        tasks = sum(stage.numTasks for stage in stages if stage)
        completed = sum(stage.numCompletedTasks for stage in stages if stage)
        progress.update(bar, total=tasks or None, completed=completed)
