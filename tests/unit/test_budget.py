"""The budget of a run of the tests."""

from types import SimpleNamespace

import pytest

from tests.support import budget


@pytest.mark.parametrize(
    ("busy", "seconds", "exceeded"),
    [(False, 480, None), (False, 481, "may take 480 s on an idle"), (True, 600, None), (True, 601, "600 s on a busy")],
)
def test_a_run_may_take_eight_minutes_and_a_quarter_more_on_a_busy_machine(monkeypatch, busy, seconds, exceeded):
    monkeypatch.setattr(budget, "_BUSY", busy)
    line = budget.overrun(SimpleNamespace(getoption=lambda _: 480.0), seconds)
    assert line is None if exceeded is None else exceeded in line


def test_a_run_without_a_budget_may_take_any_time():
    assert budget.overrun(SimpleNamespace(getoption=lambda _: None), 10_000) is None


def test_a_file_has_the_time_of_its_fixtures_too():
    reports = [
        pytest.TestReport(f"{file}::test", (file, 1, "test"), {}, "passed", None, when, duration=seconds)
        for file, when, seconds in [("a.py", "setup", 5), ("a.py", "call", 1), ("b.py", "call", 4)]
    ]
    assert budget.slowest_files({"": reports[:1], "passed": reports[1:], "warnings": ["other"]}) == [
        ("a.py", 6),
        ("b.py", 4),
    ]
