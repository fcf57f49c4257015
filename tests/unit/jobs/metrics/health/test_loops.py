"""Health and readiness of a service that is a loop."""

import pytest

from jobs.metrics.health.loops import LoopHealth
from quota.kafka.applier.stats import ApplierStats
from quota.kafka.brokers.stats import PushStats
from quota.observation.stats import FollowStats

NOW = 5000.0


@pytest.fixture(params=[ApplierStats, FollowStats, PushStats])
def stats(request):
    return request.param()


def health(stats, missing=""):
    return LoopHealth(stats, lambda: missing, lambda: NOW)


def answers(stats, missing=""):
    found = health(stats, missing)
    return found.live().ok, found.ready().ok


def test_before_its_first_iteration_it_is_healthy_and_not_ready(stats):
    assert answers(stats) == (True, False)
    assert health(stats).ready().reason == "it is starting"


@pytest.mark.parametrize(("silence", "ok"), [(0, True), (600, True), (601, False)])
def test_it_is_healthy_and_ready_while_its_loop_runs(stats, silence, ok):
    stats.looped_at = NOW - silence
    assert answers(stats) == (ok, ok)


def test_it_is_healthy_and_not_ready_while_something_is_missing(stats):
    stats.looped_at = NOW
    assert answers(stats, "it has no positions yet") == (True, False)
    assert health(stats, "it has no positions yet").ready().reason == "it has no positions yet"


def test_while_it_waits_for_a_cluster_it_is_healthy_and_not_ready(stats):
    stats.looped_at, stats.waits_for = NOW - 86_400, "Kafka at a:1 does not answer"
    assert answers(stats) == (True, False)
    assert health(stats).ready().reason == "it waits: Kafka at a:1 does not answer"
