"""The endpoint of metrics and health, and the effect of its errors on a job."""

import json
import socket
import threading
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from jobs.metrics.collector import JobMetrics, MetricsSource
from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.metrics.health.probe import Health, ProbeResult
from jobs.metrics.loops import ApplierMetrics
from jobs.metrics.queries import QueryMetrics
from jobs.metrics.query_observer import QueryObserver
from jobs.sandbox.broker import free_port
from quota.errors import BadInput, ClusterError
from quota.kafka.applier.stats import ApplierStats
from quota.settings import load_settings
from quota.settings.sections import MetricsSettings
from tests.support.waiting import until


@pytest.fixture
def settings():
    return load_settings([f"metrics.port={free_port()}", "kafka.timeout_seconds=0.2"], environment={})


def page(metrics, path="metrics"):
    with urlopen(f"http://127.0.0.1:{metrics.port}/{path}", timeout=10) as answer:
        return answer.read().decode()


def probed(metrics, path):
    """Return the status and the body that a probe gets."""
    try:
        with urlopen(f"http://127.0.0.1:{metrics.port}/{path}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def says(ok, reason):
    return 200 if ok else 503, {"service": "enforce", "ok": ok, "reason": reason}


def test_no_endpoint_is_served_unless_the_settings_name_a_port():
    settings = load_settings(environment={})
    with (
        ServiceEndpoint(MetricsSettings(), "enforce") as endpoint,
        endpoint.following(settings, Job(), Well(), decides=True),
    ):
        assert not [each for each in threading.enumerate() if each.name == "metrics"]


def test_a_job_serves_metrics_while_it_runs_and_then_releases_its_port(settings):
    with ServiceEndpoint(settings.metrics, "enforce") as endpoint:
        assert page(settings.metrics) == ""
        with endpoint.following(settings, Job(), Well()):
            assert "mutation_quota_metrics_failures_total 0.0" in page(settings.metrics)
    with pytest.raises(URLError):
        page(settings.metrics)
    with ServiceEndpoint(settings.metrics, "enforce"):
        assert page(settings.metrics) == ""


def test_an_applier_serves_its_counts_and_its_batches_as_those_of_a_query(settings):
    tally = ApplierStats(topics=3, found_done=1, failed=2, reopened=1)
    metrics = ApplierMetrics(settings, tally)
    with ServiceEndpoint(settings.metrics, "enforce") as endpoint, endpoint.following(settings, metrics, Well()):
        tally.batches, tally.ended_at = 1, 100.5
        lines = page(settings.metrics).splitlines()
    assert {
        'mutation_quota_applied_topics_total{outcome="found_done"} 1.0',
        'mutation_quota_query_batches_total{query="applier"} 1.0',
        'mutation_quota_query_last_batch_timestamp_seconds{query="applier"} 100.5',
    } <= set(lines)


def test_probes_are_answered_by_the_monitored_service(settings):
    """Before that it starts, and after that it stops: it still runs then, and is not ready."""
    health = Well()
    with ServiceEndpoint(settings.metrics, "enforce") as endpoint:
        assert probed(settings.metrics, "healthz") == says(True, "it is starting")
        assert probed(settings.metrics, "readyz") == says(False, "it is starting")
        with endpoint.following(settings, Job(), health):
            assert probed(settings.metrics, "healthz") == says(True, "it goes on")
            assert probed(settings.metrics, "readyz") == says(True, "it works")
            health.answer = ProbeResult(False, "a reason\nof two lines")
            assert probed(settings.metrics, "healthz") == says(False, "a reason of two lines")
            assert probed(settings.metrics, "readyz") == says(False, "a reason of two lines")
        assert probed(settings.metrics, "healthz") == says(True, "it is stopping")
        assert probed(settings.metrics, "readyz") == says(False, "it is stopping")


def test_a_job_with_once_leaves_the_port_to_running_services(settings):
    with ServiceEndpoint(settings.metrics, "enforce"), ServiceEndpoint(settings.metrics, "enforce", once=True):
        assert page(settings.metrics) == ""


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\n"])
def test_a_client_that_sends_no_whole_request_is_disconnected_in_silence(settings, sent, monkeypatch, capsys):
    monkeypatch.setattr("jobs.metrics.health.endpoint._RequestHandler.timeout", 0.05)
    address = ("127.0.0.1", settings.metrics.port)
    with ServiceEndpoint(settings.metrics, "enforce"), socket.create_connection(address, timeout=10) as client:
        client.sendall(sent)
        assert client.recv(1) == b""
    assert capsys.readouterr().err == ""


def test_a_port_in_use_is_reported_in_one_line():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BadInput) as raised:
            ServiceEndpoint(MetricsSettings(port=port), "enforce")
    expected = f"metrics.port: 127.0.0.1:{port} is in use; each job needs its own port, or 0 for no metrics and probes"
    assert str(raised.value) == expected


@pytest.mark.parametrize("address", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_reported_too(address):
    with pytest.raises(BadInput, match=rf"^metrics.address: cannot listen on {address}:\d+: "):
        ServiceEndpoint(MetricsSettings(port=free_port(), address=address), "enforce")


def test_a_failure_is_counted_and_logged_once_and_the_rest_continues(settings, monkeypatch, caplog):
    """There is no Kafka: the job's thread retries continuously."""
    monkeypatch.setattr("jobs.metrics.collector._RETRY_SECONDS", 0.01)
    monkeypatch.setattr("jobs.metrics.collector.AnswerMetrics", failing)
    metrics, stop = JobMetrics(settings, QueryMetrics(settings, QueryObserver()), decides=True), threading.Event()
    thread = threading.Thread(target=metrics.follow, args=(stop,))
    thread.start()
    until(lambda: failures(metrics) >= 3, poll_seconds=0.01)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert caplog.messages == ["metrics: ClusterError: no Kafka; the job continues"]


class Job(MetricsSource):
    """A job without metrics."""

    def families(self):
        return iter(())


class Well(Health):
    """A service that is healthy, unless a test says otherwise."""

    answer = None

    def live(self):
        return self.answer or ProbeResult(True, "it goes on")

    def ready(self):
        return self.answer or ProbeResult(True, "it works")


def failing(_):
    raise ClusterError("no Kafka")


def failures(metrics):
    (family,) = [each for each in metrics.collect() if each.name == "mutation_quota_metrics_failures"]
    return family.samples[0].value
