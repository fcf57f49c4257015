"""The metrics of a service that pushes quotas."""

import time

from jobs.metrics.families import push_families
from jobs.metrics.services import ServiceMetrics
from jobs.metrics.stats import PushStats
from quota.records.entity import QuotaEntity
from quota.timeline.cluster_plan import differences
from tests.support.monitoring import samples

ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")


def metrics_of(stats):
    return samples(push_families(stats))


def test_differences_are_reported_by_kind_with_the_time_of_the_comparison():
    stats = PushStats()
    stats.compare(differences({ALICE: 5.0, BOB: None}, {ALICE: 9.0, BOB: 1.0, QuotaEntity(None): 2.0}), 1234.5)
    found = metrics_of(stats)
    name = "mutation_quota_push_differing_quotas"
    assert {key[1][1]: value for key, value in found.items() if key[0] == name} == {
        "changed": 1,
        "missing": 0,
        "not_removed": 1,
        "only_there": 1,
    }
    assert found["mutation_quota_push_last_comparison_timestamp_seconds",] == 1234.5
    stats.compare([], 1300.0)
    assert metrics_of(stats)[name, ("difference", "changed")] == 0


def test_nothing_is_reported_for_a_cluster_that_was_not_compared_yet():
    """There is no zero, which would mean no drift."""
    before = time.time()
    metrics = ServiceMetrics("push", lambda: push_families(PushStats()))
    found = samples(metrics.families())
    assert list(found) == [("mutation_quota_query_start_timestamp_seconds", ("query", "push"))]
    assert before <= found["mutation_quota_query_start_timestamp_seconds", ("query", "push")] <= time.time()
