"""A side of a comparison that fails ends the comparison, and is never a figure."""

import signal
import sys
from math import inf, nan

import pytest

from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.sections.start import SideError, seconds_until

READY = "running: it"
SERVES = f"""
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print({READY!r}, flush=True)
signal.pause()
"""


def measured(log, program, condition=None):
    """Measure a Python program until it has written something, or until a condition holds."""
    command = [sys.executable, "-c", program]
    return seconds_until(condition or (lambda: log.stat().st_size > 0), command, READY, log, deadline_seconds=20)


def test_a_process_that_gets_ready_and_ends_cleanly_has_a_time(tmp_path):
    assert 0 < measured(tmp_path / "log", SERVES) < 20


def never():
    return False


@pytest.mark.parametrize(
    ("program", "condition", "error"),
    [
        ("import sys; print('no'); sys.exit(2)", never, "ended with 2: no"),
        ("", never, "ended with 0"),
        (SERVES.replace(READY, "starting"), None, "ended with 0: starting"),
        # without a handler, SIGTERM kills it
        (f"print({READY!r}, flush=True); import time; time.sleep(60)", None, f"ended with {-signal.SIGTERM}: {READY}"),
    ],
)
def test_a_process_that_cannot_be_measured_is_an_error(tmp_path, program, condition, error):
    with pytest.raises(SideError, match=error):
        measured(tmp_path / "log", program, condition)


@pytest.mark.parametrize("runs", [(), (1.0, inf), (nan,)])
def test_a_figure_has_runs_of_each_side(runs):
    with pytest.raises(ValueError, match="start: now has no figures"):
        Figure("start", "now", "s", runs)
    with pytest.raises(ValueError, match="start: before has no figures"):
        Figure("start", "now", "s", (1.0,), "before", runs)
