"""No crash loses, doubles or changes a decision, in short; `make chaos` is the long form."""

import pytest

from tests.chaos.run import under_fire, verdict_of
from tests.chaos.steps import AuditStep, Step

STEPS = (Step.BEFORE_COMMIT, AuditStep.DELTA, Step.OFFSETS)
RATE = 40.0


@pytest.mark.timeout(900)  # a busy machine is no failure
def test_kills_lose_nothing_and_forgive_no_debt(deployment, tmp_path):
    """Driver and JVM are killed at steps of a batch, and started again: as if nothing had been."""
    told = []
    with under_fire(deployment, tmp_path / "jobs.log", told.append, RATE) as killer:
        for step in STEPS:
            killer.kill_at(step)
    found = verdict_of(deployment, tmp_path / "jobs.log", told.append)

    assert not found.wrong, f"{found}\n{told}"
    assert killer.tally.kills == len(STEPS), told
    assert killer.tally.missed.total() < len(STEPS), told
    assert min(found.copies, found.refused, found.dead_letters, found.quota_changes) > 0
