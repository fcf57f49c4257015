"""A service that is a loop logs its counts while it runs and at its end."""

import logging

import pytest

from jobs.metrics import loops
from jobs.metrics.endpoint import ServiceEndpoint
from jobs.metrics.loops import LoopHealth, LoopMetrics, counted
from jobs.services.push import PushStats
from quota.errors import ClusterError
from quota.settings import load_settings
from tests.support.waiting import until


@pytest.fixture
def stats(caplog):
    caplog.set_level(logging.INFO, "jobs.metrics.loops")
    return PushStats()


@pytest.fixture
def running(stats):
    settings = load_settings([], environment={})
    metrics = LoopMetrics("push", lambda: iter(()))
    return counted(ServiceEndpoint(settings.metrics, "push"), settings, stats, metrics, LoopHealth(stats))


def test_counts_are_logged_when_they_have_changed_and_at_the_end(stats, running, caplog, monkeypatch):
    monkeypatch.setattr(loops, "_LOG_SECONDS", 0.001)
    with running:
        for stats.pushed in (1, 2):
            until(lambda: f"quotas: {stats.pushed} pushed" in caplog.text, 10, 0.001)
    one, two = (f"quotas: {pushed} pushed, 0 repaired, 0 differ" for pushed in (1, 2))
    assert caplog.messages == [one, two, two]


@pytest.mark.parametrize(("pushed", "logged"), [(3, ["quotas: 3 pushed, 0 repaired, 0 differ"]), (0, [])])
def test_a_loop_that_fails_still_tells_what_it_has_counted(stats, running, caplog, pushed, logged):
    """It is not started again with its counts; one that fails at its start has none to tell."""

    def fail():
        with running:
            stats.pushed = pushed
            raise ClusterError("the cluster is lost")

    with pytest.raises(ClusterError, match="lost"):
        fail()
    assert caplog.messages == logged
