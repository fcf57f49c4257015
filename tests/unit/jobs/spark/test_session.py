"""The JVM of a session can be killed although it does not respond."""

import signal
import subprocess
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

from py4j.protocol import Py4JNetworkError

from jobs.spark import session as sessions
from jobs.spark.session import kill_jvm, spark_session_with_progress
from quota.settings import Settings


class Gateway:
    """The gateway to the JVM of spark-submit, which this process did not start; calls wait for the JVM to exit."""

    def __init__(self, process):
        self._process = process

    @property
    def jvm(self):
        self._process.wait(10)
        raise Py4JNetworkError("the JVM does not answer")


def test_the_jvm_of_spark_submit_is_killed_although_it_does_not_respond():
    process = subprocess.Popen(["sleep", "60"])
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=Gateway(process)))
    kill_jvm(spark, process.pid)
    assert process.wait(0) == -signal.SIGKILL
    kill_jvm(spark, process.pid)  # it has exited


def test_a_command_tells_that_spark_is_being_started_until_it_has_started(monkeypatch):
    told = []

    @contextmanager
    def noted(words, result=None):
        told.append(words)
        yield result
        told.append(f"end of {words}")

    monkeypatch.setattr(sessions, "progress", noted)
    monkeypatch.setattr(sessions, "spark_session", lambda *_, **__: noted("the session", "a session"))
    monkeypatch.setattr(sessions, "background", lambda *_: nullcontext())
    with spark_session_with_progress(Settings(), "buckets list", "reading") as spark:
        assert (spark, told) == ("a session", ["starting Spark", "the session", "end of starting Spark", "reading"])
