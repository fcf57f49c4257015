"""A short form of `make chaos`: no crash loses, duplicates or changes a decision."""

import pytest

from tests.evidence.chaos.run import under_fire, verdict_of
from tests.evidence.chaos.steps import AuditStep, Step

RATE = 40.0


@pytest.mark.timeout(900)  # a busy machine is no failure
def test_kills_lose_nothing_and_forgive_no_debt(deployment, tmp_path):
    """Driver and JVM are killed at steps of a batch and restarted; the result equals an undisturbed run."""
    progress = []
    with under_fire(deployment, tmp_path / "jobs.log", progress.append, RATE) as killer:
        killer.kill_at(Step.BEFORE_COMMIT)
        killer.with_audit()
        killer.kill_at(AuditStep.DELTA)
    found = verdict_of(deployment, tmp_path / "jobs.log", progress.append)

    assert not found.wrong, f"{found}\n{progress}"
    assert killer.tally.kills == 3, progress
    assert found.copies > 0 or Step.BEFORE_COMMIT in killer.tally.missed, progress
    assert min(found.refused, found.dead_letters, found.quota_changes) > 0
