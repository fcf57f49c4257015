"""Kafka's own tests at the gateway, one of each class; `make peers` runs them all, with the job on Spark."""

import pytest

from tests.evidence.peers.__main__ import peers_settings
from tests.evidence.peers.gateways import Gateways, serving
from tests.evidence.peers.suites import HAVE_PASSED, JARS, JAVA, by_test, compiled, in_java
from tests.support.deployment import prepared_deployment
from tests.support.gateway import StandIn
from tests.support.needs import need


@pytest.mark.newest_kafka
def test_a_test_of_each_class_of_kafka_passes_at_the_gateway(base_settings, roomy_broker, tmp_path):
    """Each starts brokers of its own, in one JVM; KIP-599's own test sets its quotas through the gateway."""
    need(JARS.exists(), "Kafka's tests are not there (make peers)")
    settings = peers_settings(prepared_deployment(base_settings, roomy_broker, "peers", tmp_path))
    with StandIn(settings) as job, serving(Gateways(settings, tmp_path)) as opener:
        job.follows = True
        smoke = [selector for suite in JAVA for selector in suite.selected(smoke=True)]
        outcomes = by_test(in_java(compiled(tmp_path / "java"), smoke, tmp_path, opener)).values()
    assert {outcome.outcome for outcome in outcomes} <= HAVE_PASSED, outcomes
    assert len(outcomes) >= len(JAVA)
    assert job.decisions
