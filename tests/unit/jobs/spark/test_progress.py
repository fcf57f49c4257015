"""The start of Spark is shown on a terminal."""

import io
import sys
from contextlib import contextmanager

from jobs.spark import progress
from jobs.spark.progress import command_session
from quota.settings import Settings
from tests.support.waiting import until


def test_a_terminal_shows_that_spark_is_being_started_until_it_has_started(monkeypatch):
    errors = io.StringIO()
    errors.isatty = lambda: True

    @contextmanager
    def session(*_, **__):
        until(lambda: "starting Spark" in errors.getvalue())
        yield "a session"

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "session", session)
    monkeypatch.setattr(sys, "stderr", errors)
    with command_session(Settings(), "buckets list") as spark:
        shown = errors.getvalue()
        assert spark == "a session"
        assert shown.endswith("\x1b[2K")  # the line is erased
    assert errors.getvalue() == shown
