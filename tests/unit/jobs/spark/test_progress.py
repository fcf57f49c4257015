"""A command tells that Spark is being started."""

from contextlib import contextmanager

from jobs.spark import progress
from jobs.spark.progress import command_session
from quota.settings import Settings


def test_a_command_tells_that_spark_is_being_started_until_it_has_started(monkeypatch):
    told = []

    @contextmanager
    def noted(words, result=None):
        told.append(words)
        yield result
        told.append(f"end of {words}")

    monkeypatch.setattr(progress, "progress", noted)
    monkeypatch.setattr(progress, "session", lambda *_, **__: noted("the session", "a session"))
    with command_session(Settings(), "buckets list") as spark:
        assert (spark, told) == ("a session", ["starting Spark", "the session", "end of starting Spark"])
