"""Services that are a loop: their health, and the metrics that they have in common."""

import subprocess
import sys
import time

import pytest

from jobs.metrics.loops import LoopHealth, LoopMetrics, gateway_health
from quota.gateway.stats import GatewayStats
from quota.kafka.applier.stats import ApplierStats
from tests.support.monitoring import samples

STALLED = "it has made no progress"


def checked(health):
    """Return whether a service is healthy, whether it is ready, and the reason for the latter."""
    return health.live().ok, health.ready().ok, health.ready().reason


def ago(seconds):
    """Return the monotonic time so many seconds ago; 0 for None."""
    return 0.0 if seconds is None else time.monotonic() - seconds


@pytest.mark.parametrize(
    ("silence", "missing", "waits_for", "expected"),
    [
        (None, "", "", (True, False, "it is starting")),
        (0, "", "", (True, True, "it is ready")),
        (590, "", "", (True, True, "it is ready")),
        (601, "", "", (False, False, f"{STALLED} for 601 s; the limit is 600 s")),
        (0, "it has no positions yet", "", (True, False, "it has no positions yet")),
        (86_400, "", "Kafka at a:1 does not answer", (True, False, "it waits: Kafka at a:1 does not answer")),
    ],
)
def test_a_loop_is_healthy_while_it_runs_or_waits_and_ready_if_nothing_is_missing(
    silence, missing, waits_for, expected
):
    stats = ApplierStats(looped_at=ago(silence), waits_for=waits_for)
    assert checked(LoopHealth(stats, lambda: missing, lambda: stats.waits_for)) == expected


@pytest.mark.parametrize(
    ("is_serving", "silence", "failure", "expected"),
    [
        (False, None, "", (True, False, "it is starting")),
        (True, 0, "", (True, True, "it is ready")),
        (True, 11, "", (False, False, f"{STALLED} for 11 s; the limit is 10 s")),
        (False, 0, "", (True, False, "it is stopping")),
        (True, 0, "kafka-1:9092: silent", (True, False, "no broker responds: kafka-1:9092: silent")),
    ],
)
def test_a_gateway_is_ready_while_it_accepts_connections_and_a_broker_responds(is_serving, silence, failure, expected):
    stats = GatewayStats(is_serving=is_serving, looped_at=ago(silence), broker_failure=failure)
    assert checked(gateway_health(stats)) == expected


def test_a_gateway_is_ready_even_without_decisions():
    """It still forwards everything else: unready, it would be removed and cut all clients off from their data."""
    assert gateway_health(GatewayStats(is_serving=True, looped_at=time.monotonic(), undecided=9)).ready().ok


def test_a_loop_reports_its_start_time_as_queries_do():
    before = time.time()
    (started,) = samples(LoopMetrics("push", lambda: iter(())).families()).items()
    assert started[0] == ("mutation_quota_query_start_timestamp_seconds", ("query", "push"))
    assert before <= started[1] <= time.time()


def test_the_process_of_a_gateway_has_no_spark_pandas_or_arrow():
    """They take hundreds of megabytes and a second to import; a gateway has 60 MB."""
    program = "import sys, jobs.__main__, jobs.cli.options, jobs.services.gateway; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "jobs.gateway.server" in modules
    heavy = {"pyspark", "py4j", "delta", "deltalake", "pandas", "numpy", "pyarrow", "duckdb"}
    assert heavy.isdisjoint(modules)
