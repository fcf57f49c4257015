"""A budget of a run of the tests: `pytest --budget 480` fails if it takes longer.

Loaded by pytest, as a plugin.
"""

import time
from pathlib import Path

import pytest

_STAT = Path("/proc/stat")
_SAMPLE_SECONDS = 1
"""How long the processors are watched before the tests start."""
_BUSY_CORES = 0.5
"""Other programs use more than this part of a core: the machine is busy."""
_BUSY_FACTOR = 1.25
"""The budget of a run on a busy machine is longer by this factor."""

_STARTED = time.monotonic()
_USED = pytest.StashKey()


def pytest_addoption(parser):
    """Add the option."""
    parser.addoption("--budget", type=float, metavar="SECONDS", help="fail a run that takes longer on an idle machine")


def pytest_configure(config):
    """Watch what other programs use of the processors, while this one sleeps."""
    if config.getoption("budget") is not None and not hasattr(config, "workerinput"):
        before = _STAT.read_text()
        time.sleep(_SAMPLE_SECONDS)
        config.stash[_USED] = cores_in_use(before, _STAT.read_text())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Fail a run that has passed, but took too long."""
    if _line(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Print the time and the budget if it was exceeded."""
    if line := _line(config):
        terminalreporter.section("over budget")
        terminalreporter.write_line(line)


def _line(config):
    used = config.stash.get(_USED, None)
    return None if used is None else overrun(time.monotonic() - _STARTED, config.getoption("budget"), used)


def overrun(seconds, budget, used):
    """Return the line that says by how much a run has exceeded its budget, or None.

    `used` is the number of cores that other programs used when it began. The load average does not tell: it is a mean
    of the last minute, in which this checkout was set up.
    """
    busy = used > _BUSY_CORES
    allowed = budget * _BUSY_FACTOR if busy else budget
    if seconds <= allowed:
        return None
    machine = "a busy" if busy else "an idle"
    return f"the tests took {seconds:.0f} s, and may take {allowed:.0f} s on {machine} machine"


def cores_in_use(before, after):
    """Return how many cores were in use between two readings of /proc/stat."""
    (cores, idle_before, total_before), (_, idle_after, total_after) = map(_times, (before, after))
    return cores * (1 - (idle_after - idle_before) / (total_after - total_before))


def _times(stat):
    """Return the number of cores, and the ticks that they idled and that they had, since the machine started."""
    every, *cores = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, every[1:9])
    return len(cores), idle + iowait, user + nice + system + idle + iowait + irq + softirq + steal
