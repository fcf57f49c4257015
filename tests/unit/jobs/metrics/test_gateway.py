"""The metrics of a gateway."""

import subprocess
import sys
from collections import Counter

import pytest

from jobs.metrics.families import gateway_families
from quota.gateway.mutations.operations import MutationResponse
from quota.gateway.stats import GatewayStats
from quota.wire.api_keys import ApiKey
from quota.wire.headers import RequestHeader
from tests.support.monitoring import samples


def metrics_of(stats, awaited=0):
    return samples(gateway_families(stats, awaited))


def test_connections_and_relayed_bytes_are_counted():
    stats = GatewayStats(connections=2, accepted=7, relayed=30, client_bytes=400, broker_bytes=5000)
    stats.closed = Counter({"malformed": 3, "idle": 1})
    found = metrics_of(stats)
    assert found[("mutation_quota_gateway_connections",)] == 2
    assert found[("mutation_quota_gateway_accepted_connections_total",)] == 7
    assert found["mutation_quota_gateway_closed_connections_total", ("reason", "malformed")] == 3
    assert found["mutation_quota_gateway_closed_connections_total", ("reason", "idle")] == 1
    assert found[("mutation_quota_gateway_relayed_requests_total",)] == 30
    assert found["mutation_quota_gateway_bytes_total", ("sender", "clients")] == 400
    assert found["mutation_quota_gateway_bytes_total", ("sender", "brokers")] == 5000


@pytest.mark.parametrize(("version", "mode"), [(5, "permissive"), (6, "strict")])
def test_topics_are_reported_by_operation_mode_and_outcome(version, mode):
    stats = GatewayStats()
    stats.add_mutation(
        RequestHeader(ApiKey.CREATE_TOPICS, version, 1, "app"),
        MutationResponse({}, mute_ms=2500, topics={"admitted": 4, "refused": 3, "failed": 2}),
    )
    stats.add_mutation(
        RequestHeader(ApiKey.CREATE_TOPICS, version, 2, "app"), MutationResponse({}, mute_ms=0, topics={"proceeded": 1})
    )
    found = metrics_of(stats)
    topics = {
        dict(labels)["outcome"]: count
        for (name, *labels), count in found.items()
        if name == "mutation_quota_gateway_topics_total" and ("operation", "create_topics") in labels
        if ("mode", mode) in labels
    }
    assert topics == {"admitted": 4, "refused": 3, "failed": 2, "invalid": 0, "undecided": 0, "proceeded": 1}
    assert sum(count for (name, *_), count in found.items() if name == "mutation_quota_gateway_topics_total") == 10
    assert found[("mutation_quota_gateway_mutes_total",)] == 1
    assert found[("mutation_quota_gateway_muted_seconds_total",)] == 2.5


def test_the_time_until_a_decision_is_a_histogram():
    stats = GatewayStats()
    for seconds in (0.05, 0.06, 0.4, 31.0):
        stats.add_decision(seconds)
    found = metrics_of(stats)
    buckets = {
        dict(labels)["le"]: count
        for (name, *labels), count in found.items()
        if name == "mutation_quota_gateway_decision_seconds_bucket"
    }
    assert [buckets[bound] for bound in ("0.05", "0.1", "0.3", "0.5", "30.0", "+Inf")] == [1, 2, 2, 3, 3, 4]
    assert found[("mutation_quota_gateway_decision_seconds_count",)] == 4
    assert round(found[("mutation_quota_gateway_decision_seconds_sum",)], 9) == 31.51


def test_errors_and_pending_decisions_are_reported():
    stats = GatewayStats(undecided=5, late=2)
    stats.add_foreign([("kafka-1", 9092), ("kafka-1", 9092)])
    found = metrics_of(stats, awaited=3)
    assert found[("mutation_quota_gateway_awaited_decisions",)] == 3
    assert found[("mutation_quota_gateway_undecided_requests_total",)] == 5
    assert found[("mutation_quota_gateway_late_decisions_total",)] == 2
    assert found[("mutation_quota_gateway_foreign_addresses_total",)] == 2


def test_its_process_has_no_spark_pandas_or_arrow():
    """They take hundreds of megabytes and a second to import; a gateway has 60 MB."""
    program = "import sys, jobs.__main__, jobs.cli.options, jobs.services.gateway; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "jobs.gateway.server" in modules
    heavy = {"pyspark", "py4j", "delta", "deltalake", "pandas", "numpy", "pyarrow", "duckdb"}
    assert heavy.isdisjoint(modules)
