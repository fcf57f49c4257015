"""What a command is doing is told on standard error: in place on a terminal, in lines elsewhere."""

import io
from contextlib import contextmanager, redirect_stderr

from jobs import progress
from tests.support.waiting import until


@contextmanager
def shown(words, *, on_terminal=False):
    """Show words on a standard error of the test."""
    errors = io.StringIO()
    errors.isatty = lambda: on_terminal
    with redirect_stderr(errors), progress.progress(words) as tell:
        yield tell, errors.getvalue


def test_elsewhere_the_words_of_the_moment_are_a_line_at_times(monkeypatch):
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.01)
    with shown("reading") as (tell, printed):
        until(lambda: "reading\n" in printed())
        tell("reading: 2 of 3 rows")
        until(lambda: "reading: 2 of 3 rows\n" in printed())


def test_a_quick_command_prints_no_line():
    with shown("reading") as (tell, printed):
        tell("reading: 2 of 3 rows")
    assert printed() == ""


def test_a_terminal_shows_the_words_of_the_moment_and_erases_them(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with shown("reading", on_terminal=True) as (tell, printed):
        until(lambda: "reading" in printed())
        tell("[/b]: 2 of 3 rows")  # no markup
        until(lambda: "[/b]: 2 of 3 rows" in printed())
    assert printed().endswith("\x1b[2K")
