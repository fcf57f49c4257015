"""The health of a Spark query, measured by Spark's own signs of progress."""

import threading
import time
from functools import partial
from pathlib import Path

import pytest

from jobs.metrics.queries import QueryObserver
from quota.settings import load_settings
from tests.support.waiting import until

LIMIT = 600


def hold(folder, batches):
    """Let a record through when there is a file of its name; until then its task waits."""
    for batch in batches:
        for name in batch["value"].to_pylist():
            while not Path(folder, name).exists():
                time.sleep(0.02)
        yield batch


class Scene:
    """A running query whose batches have a task for each record, and a clock that a test sets."""

    def __init__(self, spark, folder):
        self._folder, self.now = folder, 0.0
        (folder / "records").mkdir()
        (folder / "released").mkdir()
        self.observer = QueryObserver(load_settings(environment={}), lambda: self.now)
        self.query = (
            spark.readStream.schema("value string")
            .text(str(folder / "records"))
            .mapInArrow(partial(hold, str(folder / "released")), "value string")
            .writeStream.queryName("enforce")
            .format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        self.observer.watch(spark, [self.query], threading.Event())

    def write(self, *names):
        for name in names:  # a file is seen when it is whole
            (self._folder / name).write_text(f"{name}\n")
        for name in names:
            (self._folder / name).rename(self._folder / "records" / name)

    def release(self, name):
        (self._folder / "released" / name).touch()

    def live(self):
        self.observer.poll()
        return self.observer.live().ok

    def ready(self):
        self.observer.poll()
        return self.observer.ready().ok

    def hangs(self):
        """Let more than the limit pass, and return whether polls during a second find no change."""
        self.now += LIMIT + 1
        for _ in range(20):
            if self.live():
                return False
            time.sleep(0.05)
        return True


@pytest.fixture
def scene(spark, tmp_path):
    made = Scene(spark, tmp_path)
    yield made
    made.query.stop()


def test_a_query_is_ready_when_there_is_nothing_to_read_and_unhealthy_while_a_batch_hangs(scene):
    until(scene.ready)
    scene.write("one", "two")
    until(lambda: scene.query.status["isDataAvailable"])
    until(scene.hangs)
    assert "has made no progress" in scene.observer.live().reason
    assert not scene.ready()

    scene.release("one")  # one of two tasks ends, and nothing else happens
    until(scene.live)
    assert scene.query.status["isTriggerActive"]

    until(scene.hangs)
    scene.release("two")
    until(scene.ready)
