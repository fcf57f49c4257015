"""What a service that pushes quotas tells of itself."""

import time

from jobs.metrics.push import PushMetrics
from quota.kafka.brokers.stats import PushStats
from quota.records.entity import QuotaEntity
from quota.timeline.cluster_plan import differences
from tests.support.monitoring import samples

ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")


def told(stats):
    return samples(PushMetrics(stats).families())


def test_differences_are_told_by_their_kind_and_when_they_were_looked_for():
    stats = PushStats()
    stats.compare(differences({ALICE: 5.0, BOB: None}, {ALICE: 9.0, BOB: 1.0, QuotaEntity(None): 2.0}), 1234.5)
    found = told(stats)
    name = "mutation_quota_push_differing_quotas"
    assert {key[1][1]: value for key, value in found.items() if key[0] == name} == {
        "changed": 1,
        "missing": 0,
        "not_removed": 1,
        "only_there": 1,
    }
    assert found["mutation_quota_push_last_comparison_timestamp_seconds",] == 1234.5
    stats.compare([], 1300.0)
    assert told(stats)[name, ("difference", "changed")] == 0


def test_nothing_is_told_of_a_cluster_that_was_not_compared_yet():
    """No zero that says that all is well."""
    before = time.time()
    metrics = PushMetrics(PushStats())
    found = samples(metrics.families())
    assert list(found) == [("mutation_quota_query_start_timestamp_seconds", ("query", "push"))]
    assert before <= found["mutation_quota_query_start_timestamp_seconds", ("query", "push")] <= time.time()
