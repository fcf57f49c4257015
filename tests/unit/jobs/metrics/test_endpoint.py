"""The endpoint of metrics and health, the effect of its errors on a job, and the health of services that are a loop."""

import json
import socket
import threading
import time
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from jobs.metrics.collector import JobMetrics, MetricsSource
from jobs.metrics.endpoint import Health, ProbeResult, ServiceEndpoint
from jobs.metrics.loops import LoopHealth, LoopMetrics, gateway_health
from jobs.metrics.queries import QueryMetrics, QueryObserver
from jobs.sandbox.broker import free_port
from quota.errors import BadInput, ClusterError
from quota.gateway.stats import GatewayStats
from quota.kafka.applier import ApplierStats
from quota.settings import load_settings
from quota.settings.sections import MetricsSettings
from tests.support.monitoring import samples
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


@pytest.mark.parametrize("is_named", [True, False])
def test_an_endpoint_is_served_only_if_the_settings_name_a_port(settings, is_named):
    served = settings.metrics if is_named else MetricsSettings()
    with ServiceEndpoint(served, "enforce") as endpoint, endpoint.following(settings, Job(), Well()):
        assert ("metrics" in [thread.name for thread in threading.enumerate()]) == is_named


def test_a_job_serves_metrics_while_it_runs_and_then_releases_its_port(settings):
    with ServiceEndpoint(settings.metrics, "enforce") as endpoint:
        assert "mutation_quota" not in page(settings.metrics)
        with endpoint.following(settings, Job(), Well()):
            served = page(settings.metrics)
            assert "mutation_quota_metrics_failures_total 0.0" in served
            assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} <= {
                line.split()[0] for line in served.splitlines()
            }
    with pytest.raises(URLError):
        page(settings.metrics)
    with ServiceEndpoint(settings.metrics, "enforce"):
        assert "mutation_quota" not in page(settings.metrics)


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
    with (
        ServiceEndpoint(settings.metrics, "enforce") as running,
        running.following(settings, Job(), Well()),
        ServiceEndpoint(settings.metrics, "enforce", once=True),
    ):
        assert "mutation_quota_metrics_failures_total 0.0" in page(settings.metrics)


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\n"])
def test_a_client_that_sends_no_whole_request_is_disconnected_in_silence(settings, sent, monkeypatch, capsys):
    monkeypatch.setattr("jobs.metrics.endpoint._RequestHandler.timeout", 0.05)
    address = ("127.0.0.1", settings.metrics.port)
    with ServiceEndpoint(settings.metrics, "enforce"), socket.create_connection(address, timeout=10) as client:
        client.sendall(sent)
        assert client.recv(1) == b""
    assert capsys.readouterr().err == ""


def test_a_port_in_use_is_reported_in_one_line(port_in_use):
    with pytest.raises(BadInput) as raised:
        ServiceEndpoint(MetricsSettings(port=port_in_use), "enforce")
    expected = (
        f"metrics.port: 127.0.0.1:{port_in_use} is in use; each job needs its own port, or 0 for no metrics and probes"
    )
    assert str(raised.value) == expected


@pytest.mark.parametrize("address", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_reported_too(address):
    with pytest.raises(BadInput, match=rf"^metrics.address: cannot listen on {address}:\d+: "):
        ServiceEndpoint(MetricsSettings(port=free_port(), address=address), "enforce")


def test_a_failure_is_counted_and_logged_once_and_the_rest_continues(settings, monkeypatch, caplog):
    """There is no Kafka: the job's thread retries continuously."""
    monkeypatch.setattr("jobs.metrics.collector._RETRY_SECONDS", 0.01)
    monkeypatch.setattr("jobs.metrics.collector.AnswerMetrics", failing)
    metrics, stop = (
        JobMetrics(settings, QueryMetrics(settings, QueryObserver(settings)), with_decisions=True),
        threading.Event(),
    )
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
    (family,) = [family for family in metrics.collect() if family.name == "mutation_quota_metrics_failures"]
    return family.samples[0].value


STALLED = "it has made no progress"


def checked(health):
    """Return whether a service is healthy, whether it is ready, and the reason for the latter."""
    return health.live().ok, health.ready().ok, health.ready().reason


def ago(seconds):
    """Return the monotonic time so many seconds ago; 0 for None."""
    return 0.0 if seconds is None else time.monotonic() - seconds


@pytest.mark.parametrize(
    ("silence", "missing", "expected"),
    [
        (None, "", (True, False, "it is starting")),
        (0, "", (True, True, "it is ready")),
        (590, "", (True, True, "it is ready")),
        (601, "", (False, False, f"{STALLED} for 601 s; the limit is 600 s")),
        (0, "it has no positions yet", (True, False, "it has no positions yet")),
    ],
)
def test_a_loop_is_healthy_while_it_runs_and_ready_if_nothing_is_missing(silence, missing, expected):
    assert checked(LoopHealth(ApplierStats(looped_at=ago(silence)), lambda: missing)) == expected


@pytest.mark.parametrize(
    ("is_serving", "silence", "failures", "expected"),
    [
        (True, 0, ["", ""], (True, True, "it is ready")),
        (True, 11, [], (False, False, f"{STALLED} for 11 s; the limit is 10 s")),
        (False, 0, [], (True, False, "it is stopping")),
        (
            True,
            0,
            ["k-1:9092: silent", "k-2:9092: gone"],
            (True, False, "no broker responds: k-1:9092: silent; k-2:9092: gone"),
        ),
        (
            True,
            0,
            ["", "k-2:9092: gone"],
            (True, True, "it is ready; brokers that do not respond: k-2:9092: gone (port 1)"),
        ),
    ],
)
def test_a_gateway_is_ready_while_it_accepts_connections_and_a_broker_responds(is_serving, silence, failures, expected):
    stats = GatewayStats(is_serving=is_serving, looped_at=ago(silence), broker_failures=dict(enumerate(failures)))
    assert checked(gateway_health(stats)) == expected


def test_a_gateway_is_ready_even_without_decisions():
    """It still forwards everything else: unready, it would be removed and cut all clients off from their data."""
    assert gateway_health(GatewayStats(is_serving=True, looped_at=time.monotonic(), undecided=9)).ready().ok


def test_a_loop_reports_its_start_time_as_queries_do():
    before = time.time()
    (started,) = samples(LoopMetrics("push", lambda: iter(())).families()).items()
    assert started[0] == ("mutation_quota_query_start_timestamp_seconds", ("query", "push"))
    assert before <= started[1] <= time.time()
