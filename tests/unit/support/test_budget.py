"""A run that passes, but takes longer than its budget, fails; on a busy machine it may take a quarter more."""

import subprocess
import sys

import pytest

from tests.support.budget import cores_in_use, overrun
from tests.support.checkout import CHECKOUT

STAT = """cpu  {user} 20 300 {idle} 50 0 7 3 0 0
cpu0 500 10 150 1000 25 0 3 1 0 0
cpu1 500 10 150 1000 25 0 4 2 0 0
intr 12345
"""


@pytest.mark.parametrize(
    ("seconds", "used", "line"),
    [
        (540, 0.5, None),
        (541, 0.5, "the tests took 541 s, and may take 540 s on an idle machine"),
        (541, 0.6, None),
        (675, 0.6, None),
        (676, 0.6, "the tests took 676 s, and may take 675 s on a busy machine"),
    ],
)
def test_a_run_may_take_its_budget_and_a_quarter_more_while_others_use_half_a_core(seconds, used, line):
    assert overrun(seconds, 540, used) == line


@pytest.mark.parametrize(("busy", "idle", "used"), [(0, 200, 0), (50, 150, 0.5), (200, 0, 2)])
def test_what_is_in_use_is_what_two_cores_did_not_idle_between_two_readings(busy, idle, used):
    before, after = STAT.format(user=1000, idle=2000), STAT.format(user=1000 + busy, idle=2000 + idle)
    assert cores_in_use(before, after) == pytest.approx(used)


def test_a_run_over_its_budget_fails_although_its_tests_pass(tmp_path):
    (tmp_path / "test_passing.py").write_text("def test_passing():\n    assert True\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.budget", "--rootdir", tmp_path, tmp_path]
    over, within = (
        subprocess.run([*command, "--budget", budget], cwd=CHECKOUT, capture_output=True, text=True, check=False)
        for budget in ("0.1", "600")
    )
    assert (over.returncode, within.returncode) == (1, 0), over.stdout + within.stdout
    assert "1 passed" in over.stdout
    assert "over budget" in over.stdout
    assert "over budget" not in within.stdout
