"""The verdicts of the benchmark can fail: a side that fails is never a figure, and a slow decision is no success."""

import json
import signal
import subprocess
import sys
import time
from math import inf, nan

import pytest

from quota.settings import Settings
from tests.evidence.bench import guard
from tests.evidence.bench.performance.figure import Figure, Goal, SideError
from tests.evidence.bench.performance.sections.decision import RECORD, VERDICT
from tests.evidence.bench.performance.sections.latency import load
from tests.evidence.bench.performance.sections.standby import Load
from tests.evidence.bench.performance.sections.start import seconds_until

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
    began = time.monotonic()
    assert 0 < measured(tmp_path / "log", SERVES) < time.monotonic() - began


@pytest.mark.parametrize(
    ("program", "condition", "error"),
    [
        (f"print({READY!r})", lambda: False, f"ended with 0: {READY}"),
        # without a handler, SIGTERM kills it
        (f"print({READY!r}, flush=True); import time; time.sleep(60)", None, f"ended with {-signal.SIGTERM}: {READY}"),
    ],
    ids=["ends by itself", "fails at its end"],
)
def test_a_process_that_cannot_be_measured_is_an_error(tmp_path, program, condition, error):
    with pytest.raises(SideError, match=error):
        measured(tmp_path / "log", program, condition)


def test_a_process_that_does_not_get_ready_is_an_error(tmp_path):
    command = [sys.executable, "-c", SERVES.replace(READY, "starting")]
    with pytest.raises(AssertionError, match="not true within 1 s"):
        seconds_until(lambda: True, command, READY, tmp_path / "log", deadline_seconds=1)


def test_a_load_with_a_request_without_an_answer_is_an_error(monkeypatch):
    printed = {"sent": 3, "unanswered": 1, "latencies_ms": [5.0, 7.0]}
    answered = subprocess.CompletedProcess([], 0, json.dumps(printed))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answered)
    with pytest.raises(SideError, match="mutation-requests at 10 requests/s: 1 without an answer"):
        load(Settings(), rate=10.0, seconds=0.3, uncounted=0.0)


def test_a_pause_is_the_longest_time_without_an_answer_that_has_ended_since_a_time():
    """Answers at 1, 5, 6 and 9 s, to requests that were sent at 0, 2, 3 and 8 s."""
    load_of = Load(Settings())
    load_of.sent |= dict(zip("abcd", (0.0, 2.0, 3.0, 8.0), strict=True))
    load_of.answered |= dict(zip("cadb", (6.0, 1.0, 9.0, 5.0), strict=True))
    assert [load_of.pause(began) for began in (0.0, 5.0, 6.5)] == [(4.0, 5.0), (3.0, 9.0), (3.0, 9.0)]
    assert sorted(load_of.latencies(1.0, 8.0)) == [3000.0, 3000.0]


@pytest.mark.parametrize("runs", [(), (1.0, inf), (nan,)])
def test_a_figure_has_runs_of_each_side(runs):
    with pytest.raises(ValueError, match="start: now has no figures"):
        Figure("start", "now", "s", runs)
    with pytest.raises(ValueError, match="start: before has no figures"):
        Figure("start", "now", "s", (1.0,), "before", runs)


@pytest.mark.parametrize(
    ("goal", "is_met"),
    [(Goal(0.5), True), (Goal(0.49), False), (Goal(0.5, at_least=True), True), (Goal(0.51, at_least=True), False)],
)
def test_a_goal_bounds_the_ratio_of_the_medians(goal, is_met):
    """The medians are 10 and 20."""
    assert Figure("latency", "p50", "ms", (1.0, 10.0, 90.0), "limit", (2.0, 20.0, 30.0), goal).is_met is is_met


@pytest.mark.parametrize(
    ("verdict", "record", "lost"),
    [(0.5, 0.25, ""), (0.49, 0.25, f"{VERDICT}: 0.49, below 0.5"), (0.5, 0.24, f"{RECORD}: 0.24, below 0.25")],
)
def test_the_guard_fails_if_a_ratio_is_below_its_bound(monkeypatch, verdict, record, lost):
    figures = [
        Figure("decision", what, "1/s", (ratio,), "a library", (1.0,))
        for what, ratio in {VERDICT: verdict, RECORD: record}.items()
    ]
    monkeypatch.setattr(guard, "decisions", lambda **_: figures)
    if not lost:
        guard.main()
        return
    with pytest.raises(SystemExit) as ended:
        guard.main()
    assert ended.value.code == f"guard: compared with a library: {lost}"


def test_the_program_measures_the_decision_beside_the_libraries():
    """The only section without a JVM; the others are imported, and measured by `make nightly`."""
    command = [sys.executable, "-m", "tests.evidence.bench.performance", "--smoke", "--only", "decision"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["sections"]["decision"]
    assert {figure["what"] for figure in figures if figure["ratio"] is not None} == {VERDICT, RECORD}
    assert all(figure["median"] > 0 for figure in figures)
