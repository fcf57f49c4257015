"""The metrics and probes of a running gateway."""

import threading
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.sandbox.broker import free_port
from quota.kafka.topics.preparation import prepare_topics
from tests.support.clients import QUIET
from tests.support.gateway import start_gateway
from tests.support.monitoring import served_samples
from tests.support.waiting import until


def status(port, path):
    """Return the status that a probe gets; None if the port is closed."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return answer.status
    except HTTPError as error:
        return error.code
    except URLError:
        return None


def test_a_gateway_is_ready_until_it_is_stopped_and_alive_while_it_finishes_pending_requests(deployment, tmp_path):
    """There is no decision, so a creation is pending; the stopped gateway responds to it before it ends."""
    prepare_topics(deployment)
    metrics = free_port()
    given = (f"metrics.port={metrics}", "gateway.decision_timeout_seconds=8")
    gateway = start_gateway(deployment, tmp_path / "gateway.log", *given)
    raised = []

    def create():
        admin = AdminClient({**QUIET, "bootstrap.servers": gateway.address})
        with pytest.raises(KafkaException) as error:
            admin.create_topics([NewTopic("gateway-metrics", 3)])["gateway-metrics"].result(60)
        raised.append(error.value.args[0])

    client = threading.Thread(target=create)
    try:
        until(lambda: status(metrics, "readyz") == 200)
        assert status(metrics, "healthz") == 200
        client.start()
        until(lambda: served_samples(metrics)["mutation_quota_gateway_awaited_decisions",] == 1)
        served = served_samples(metrics)
        assert served["mutation_quota_gateway_connections",] >= 1
        assert served["mutation_quota_gateway_relayed_requests_total",] >= 1
        assert served["mutation_quota_query_start_timestamp_seconds", ("query", "gateway")] > 0

        gateway.process.terminate()
        until(lambda: status(metrics, "readyz") == 503)
        assert status(metrics, "healthz") == 200
        assert gateway.process.wait(60) == 0
        assert status(metrics, "healthz") is None
    finally:
        gateway.process.kill()
        if client.ident:
            client.join(60)
    assert [error.code() for error in raised] == [KafkaError.REQUEST_TIMED_OUT]
