"""A budget of a run of the tests: `pytest --budget 480` fails if it takes longer.

Loaded by pytest, as a plugin.
"""

import os
import time

import pytest

_BUSY_SHARE = 0.5
"""Other programs use more than this part of a core: the machine was busy when the run began."""
_BUSY_FACTOR = 1.25
"""The budget of a run on a busy machine is longer by this factor."""

_STARTED = time.monotonic()
_BUSY = os.getloadavg()[0] > _BUSY_SHARE


def pytest_addoption(parser):
    """Add the option."""
    parser.addoption("--budget", type=float, metavar="SECONDS", help="fail a run that takes longer on an idle machine")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Fail a run that has passed, but took too long."""
    if overrun(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Print the time and the budget if it was exceeded."""
    if line := overrun(config):
        terminalreporter.section("over budget")
        terminalreporter.write_line(line)


def overrun(config):
    """Return the line that says by how much a run has exceeded its budget; None if it has not, or has none."""
    budget = config.getoption("budget")
    if budget is None or hasattr(config, "workerinput"):
        return None
    allowed = budget * _BUSY_FACTOR if _BUSY else budget
    taken = time.monotonic() - _STARTED
    if taken <= allowed:
        return None
    machine = "a busy" if _BUSY else "an idle"
    return f"the tests took {taken:.0f} s, and may take {allowed:.0f} s on {machine} machine"
