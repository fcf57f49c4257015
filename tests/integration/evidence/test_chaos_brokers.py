"""A short form of `make chaos`: no failing broker loses, duplicates or changes a decision."""

import pytest

from jobs.sandbox.broker import with_plaintext_cluster
from jobs.sandbox.cluster import embedded_cluster
from tests.evidence.chaos.brokers import failing_brokers
from tests.evidence.chaos.run import verdict_of
from tests.support.deployment import make_deployment

RATE = 40.0


@pytest.mark.timeout(900)  # a busy machine is no failure
def test_a_broker_that_is_killed_and_a_leader_that_is_cut_off_lose_nothing_and_forgive_no_debt(base_settings, tmp_path):
    """Enforce and audit continue with the other brokers, or after a restart, with an undisturbed result."""
    progress, log = [], tmp_path / "jobs.log"
    with embedded_cluster(base_settings, 3, 0, tmp_path / "brokers") as cluster:
        settings = make_deployment(with_plaintext_cluster(base_settings, cluster.address), "brokers", tmp_path / "job")
        with failing_brokers(cluster, settings, log, progress.append, RATE) as (traffic, killer):
            killer.kill(cluster.leader_of(settings.topics.decisions))
            killer.cut_off(settings.topics.quotas)
        found = verdict_of(settings, log, progress.append, traffic.acknowledged)

    assert not found.wrong, f"{found}\n{progress}"
    assert traffic.failed == []
    assert killer.tally.failures.total() == 2
    assert min(found.refused, found.dead_letters, found.quota_changes) > 0
