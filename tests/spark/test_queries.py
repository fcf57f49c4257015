"""Queries on Spark: the batch in an error and in the JVM's log, their health, and the files of a storage root."""

import threading
import time
from functools import partial
from pathlib import Path

import pytest

from jobs.metrics.queries import QueryObserver
from jobs.spark.failures import QueryFailed
from jobs.spark.queries import check_queries
from jobs.storage.files import open_files
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.support.waiting import until


@pytest.fixture
def fail_at(spark, tmp_path):
    """Return a function that runs a query on the same checkpoint until a batch fails, and returns its error."""

    def run(batch, seen=None):
        def write(_, number):
            if seen is not None:
                seen[number] = spark._jvm.org.apache.logging.log4j.ThreadContext.get("BATCH_ID")  # noqa: SLF001
            if number == batch:
                raise ValueError("no")

        rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
        query = rows.writeStream.queryName("audit").foreachBatch(write).trigger(processingTime="50 milliseconds")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        until(lambda: not query.isActive)
        with pytest.raises(QueryFailed, match=r"^audit failed: ") as raised:
            check_queries([query])
        return raised.value

    return run


def test_a_failure_names_its_batch_also_after_a_restart(fail_at):
    assert fail_at(1).batch == 1
    assert fail_at(1).batch == 1
    assert fail_at(2).batch == 2


def test_a_query_that_fails_before_its_first_batch_names_none(fail_at, tmp_path):
    assert fail_at(0).batch == 0
    (tmp_path / "checkpoint/offsets/.0.crc").unlink()
    (tmp_path / "checkpoint/offsets/0").write_text("no offsets")
    assert fail_at(0).batch is None


def test_spark_puts_the_batch_into_the_context_of_its_log(fail_at):
    """`conf/log4j2.properties` reads it there."""
    fail_at(1, seen=(seen := {}))
    assert seen == {0: "0", 1: "1"}


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


DEFAULT = "fs.defaultFS"


def test_a_local_folder_is_not_mistaken_for_one_of_hdfs(spark, base_settings):
    spark.conf.set(DEFAULT, "hdfs://127.0.0.1:8020")
    try:
        with pytest.raises(MutationQuotaError, match=r"default file system here is hdfs:\/\/127\.0\.0\.1:8020; set"):
            open_files(spark, base_settings)
    finally:
        spark.conf.unset(DEFAULT)
