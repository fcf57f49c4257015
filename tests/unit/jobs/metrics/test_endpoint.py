"""Where metrics and health are read, and what happens to a job when something goes wrong with them."""

import socket
import threading
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from jobs.metrics.applier import ApplierMetrics
from jobs.metrics.collector import JobMetrics, Work
from jobs.metrics.endpoint import MetricsEndpoint
from jobs.metrics.queries import QueryMetrics
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
    """Return the status that a probe gets."""
    try:
        with urlopen(f"http://127.0.0.1:{metrics.port}/{path}", timeout=10) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def test_none_is_served_unless_the_settings_name_a_port():
    settings = load_settings(environment={})
    with MetricsEndpoint(MetricsSettings()) as endpoint, endpoint.following(settings, Job(), decides=True):
        assert not [each for each in threading.enumerate() if each.name == "metrics"]


def test_a_job_is_told_of_while_it_runs_and_its_port_is_free_after(settings):
    with MetricsEndpoint(settings.metrics) as endpoint:
        assert page(settings.metrics) == ""
        with endpoint.following(settings, Job()):
            assert "mutation_quota_metrics_failures_total 0.0" in page(settings.metrics)
    with pytest.raises(URLError):
        page(settings.metrics)
    with MetricsEndpoint(settings.metrics):
        assert page(settings.metrics) == ""


def test_an_applier_is_told_of_as_it_counts_and_its_batches_as_those_of_a_query(settings):
    tally = ApplierStats(topics=3, found_done=1, failed=2, reopened=1)
    metrics = ApplierMetrics(settings, tally)
    with MetricsEndpoint(settings.metrics) as endpoint, endpoint.following(settings, metrics):
        tally.end_batch(100.5)
        lines = page(settings.metrics).splitlines()
    assert 'mutation_quota_applied_topics_total{outcome="carried_out"} 3.0' in lines
    assert 'mutation_quota_applied_topics_total{outcome="found_done"} 1.0' in lines
    assert 'mutation_quota_applied_topics_total{outcome="failed"} 2.0' in lines
    assert "mutation_quota_applier_reopened_total 1.0" in lines
    assert 'mutation_quota_query_batches_total{query="applier"} 1.0' in lines
    assert 'mutation_quota_query_last_batch_timestamp_seconds{query="applier"} 100.5' in lines


def test_a_probe_is_told_whether_a_job_goes_on_and_whether_it_does_its_work(settings):
    """Before a job is followed it starts, and after that it ends: it goes on, and is not ready."""
    job = Job()
    with MetricsEndpoint(settings.metrics) as endpoint:
        assert (probed(settings.metrics, "healthy"), probed(settings.metrics, "ready")) == (200, 503)
        with endpoint.following(settings, job):
            assert (probed(settings.metrics, "healthy"), probed(settings.metrics, "ready")) == (200, 200)
            job.is_ready = False
            assert (probed(settings.metrics, "healthy"), probed(settings.metrics, "ready")) == (200, 503)
            job.is_alive = False
            assert (probed(settings.metrics, "healthy"), probed(settings.metrics, "ready")) == (503, 503)
        assert (probed(settings.metrics, "healthy"), probed(settings.metrics, "ready")) == (200, 503)


def test_queries_are_ready_once_they_run(settings):
    metrics = QueryMetrics(settings)
    assert not metrics.is_ready
    metrics.watch([Query()])
    assert metrics.is_ready


def test_what_works_off_and_ends_leaves_the_port_to_those_that_stay(settings):
    with MetricsEndpoint(settings.metrics), MetricsEndpoint(settings.metrics, once=True):
        assert page(settings.metrics) == ""


def test_a_port_that_is_taken_is_told_in_one_line():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BadInput) as raised:
            MetricsEndpoint(MetricsSettings(port=port))
    expected = f"metrics.port: 127.0.0.1:{port} is in use; each job needs a port of its own, or 0 for no metrics"
    assert str(raised.value) == expected


@pytest.mark.parametrize("address", ["192.0.2.1", "no such host"])
def test_an_address_that_is_not_of_this_machine_is_told_too(address):
    with pytest.raises(BadInput, match=rf"^metrics.address: {address}:\d+ cannot be listened on: "):
        MetricsEndpoint(MetricsSettings(port=free_port(), address=address))


def test_a_failure_is_counted_and_told_once_and_the_rest_goes_on(settings, monkeypatch, caplog):
    """There is no Kafka: the job's thread tries again and again."""
    monkeypatch.setattr("jobs.metrics.collector._RETRY_SECONDS", 0.01)
    monkeypatch.setattr("jobs.metrics.collector.AnswerMetrics", failing)
    metrics, stop = JobMetrics(settings, QueryMetrics(settings), decides=True), threading.Event()
    thread = threading.Thread(target=metrics.follow, args=(stop,))
    thread.start()
    until(lambda: failures(metrics) >= 3, poll_seconds=0.01)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert caplog.messages == ["metrics: ClusterError: no Kafka; the job goes on"]


class Job(Work):
    """A job whose health is set by hand."""

    is_alive = is_ready = True

    def poll(self):
        pass

    def families(self):
        return iter(())


class Query:
    """A query of Spark, as far as it is looked at."""

    name = "enforce"


def failing(_):
    raise ClusterError("no Kafka")


def failures(metrics):
    (family,) = [each for each in metrics.collect() if each.name == "mutation_quota_metrics_failures"]
    return family.samples[0].value
