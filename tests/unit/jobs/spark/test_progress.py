"""The start of Spark is shown on a terminal."""

import io
import sys
from contextlib import contextmanager

import pytest

from jobs.spark import progress
from jobs.spark.progress import command_session
from quota.settings import Settings
from tests.support.waiting import until


@pytest.fixture
def on(monkeypatch):
    """Return a function that opens a session whose start ends when `started` is true, with this standard error."""
    monkeypatch.setenv("TERM", "xterm")

    @contextmanager
    def _on(errors, started):
        @contextmanager
        def session(*_, **__):
            until(started)
            yield "a session"

        monkeypatch.setattr(progress, "session", session)
        monkeypatch.setattr(sys, "stderr", errors)
        with command_session(Settings(), "buckets list") as spark:
            yield spark

    return _on


def test_a_terminal_shows_that_spark_is_being_started_until_it_has_started(on):
    errors = io.StringIO()
    errors.isatty = lambda: True
    with on(errors, lambda: "starting Spark" in errors.getvalue()) as spark:
        shown = errors.getvalue()
        assert spark == "a session"
        assert shown.endswith("\x1b[2K")  # the line is erased
    assert errors.getvalue() == shown
