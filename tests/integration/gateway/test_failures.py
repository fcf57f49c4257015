"""Failed starts, brokers that restart, a job that does not run, and gateways that stop or are several.

Other wrong settings: `test_settings.py`, `test_listeners.py` and `test_encryption.py` among the unit tests.
"""

import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.cli.program import app
from jobs.sandbox.broker import HOST, free_port
from quota.errors import BadInput, MutationQuotaError
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from tests.support.broker import Authority
from tests.support.deployment import as_options, prepared_deployment, set_options
from tests.support.gateway import StandIn, running_gateway, start_gateway, wire_client
from tests.support.monitoring import served_samples
from tests.support.topics import QUIET
from tests.support.waiting import until
from tests.support.wire.requests import creation, deletion, growth, metadata


def create(port, name):
    """Create a topic on a separate connection; return the error, or None if there is no connection."""
    try:
        with wire_client(port) as client:
            return client.call(19, 7, creation(name, partitions=1))["topics"][0]["errorCode"]
    except (OSError, MutationQuotaError):
        return None


def tight(port, name):
    """Create a topic by a client whose quota is used up by the first; return the error."""
    with wire_client(port, "tight") as client:
        return client.call(19, 7, creation(name, partitions=1))["topics"][0]["errorCode"]


@pytest.fixture
def prepared(deployment):
    """A deployment with its topics."""
    prepare_topics(deployment)
    return deployment


def test_a_broker_restarts_under_connected_clients(base_settings, another_broker, tmp_path):
    """Clients are disconnected and rejected while the broker is down, and are served again when it is back.

    The job starts again, as its supervisor would do.
    """
    settings = prepared_deployment(base_settings, another_broker, "restart", tmp_path)
    with running_gateway(settings, tmp_path / "gateway.log") as gateway:
        admin = AdminClient({"bootstrap.servers": gateway.address, "log_level": 2})
        with StandIn(settings), wire_client(gateway.port) as client:
            admin.create_topics([NewTopic("before", 1)])["before"].result(30)
            another_broker.stop()
            with pytest.raises((OSError, MutationQuotaError)):
                client.call(3, 12, {"topics": []})
            assert create(gateway.port, "meanwhile") is None
        another_broker.start()
        with StandIn(settings):
            until(lambda: create(gateway.port, "after") in {0, 36})
            admin.create_topics([NewTopic("behind", 1)])["behind"].result(60)
            until(lambda: {"before", "after", "behind"} <= admin.list_topics(timeout=30).topics.keys())


def test_topic_changes_continue_without_a_job_if_the_settings_say_so(prepared, tmp_path):
    """`gateway.when_silent=open`: the first change waits for a decision, and those after it no more."""
    given = ("gateway.when_silent=open", "gateway.decision_timeout_seconds=1")
    with running_gateway(prepared, tmp_path / "gateway.log", *given) as gateway, wire_client(gateway.port) as client:
        assert client.call(19, 7, creation("undecided", partitions=1))["topics"][0]["errorCode"] == 0
        until(lambda: partitions_of(client, "undecided") == 1)
        assert client.call(37, 3, growth(undecided=3))["results"][0]["errorCode"] == 0
        until(lambda: partitions_of(client, "undecided") == 3)
        assert client.call(20, 6, deletion("undecided"))["responses"][0]["errorCode"] == 0
        until(lambda: partitions_of(client, "undecided") == 0)
        assert gateway.log.read_text().count("no decision in time; check that mutation-quota enforce is running") == 1


def partitions_of(client, name):
    """Return the number of partitions of a topic at its brokers; 0 if there is no such topic."""
    (topic,) = client.call(3, 12, metadata(name))["topics"]
    return len(topic["partitions"])


def test_a_request_decided_while_the_gateway_stops_is_carried_out(prepared, tmp_path):
    """SIGTERM: no new client, but the one that waits is answered before the gateway ends."""
    with StandIn(prepared) as job:
        job.silent = True
        with running_gateway(prepared, tmp_path / "gateway.log") as gateway, wire_client(gateway.port) as client:
            client.write(client.frame(19, 7, creation("drained", partitions=1)))
            until(lambda: job.taken == 1)
            gateway.process.send_signal(signal.SIGTERM)
            until(lambda: is_rejected(gateway.port))
            job.silent = False
            answer, _ = client.read()
            assert answer["topics"][0]["errorCode"] == 0
            assert gateway.process.wait(30) == 0
            gateway.process.poll = lambda: None  # it has ended as it should


def is_rejected(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_several_gateways_serve_one_cluster(prepared, tmp_path):
    """Each has its own clients and all have one job: one bucket, and a deletion requested at both is charged once."""
    with (
        StandIn(prepared, default=100.0) as job,
        running_gateway(prepared, tmp_path / "one.log") as one,
        running_gateway(prepared, tmp_path / "two.log") as two,
    ):
        job.set_quota(QuotaEntity(None, "tight"), 0.001)
        assert [tight(gateway.port, f"tight-{number}") for number, gateway in enumerate((one, two))] == [0, 89]
        for number, gateway in enumerate((one, two)):
            assert create(gateway.port, f"shared-{number}") == 0

        both = deletion("shared-0", "shared-1")
        with wire_client(one.port) as first, wire_client(two.port) as second, ThreadPoolExecutor(2) as pool:
            answers = [*pool.map(lambda client: client.call(20, 6, both), (first, second))]

        codes = sorted([topic["errorCode"] for topic in answer["responses"]] for answer in answers)
        assert codes[0] == [0, 0]
        assert set(codes[1]) <= {0, 3}
        deletions = [decision for decision in job.decisions if decision.operation.value == "DELETE_TOPICS"]
        assert len({decision.request_id for decision in deletions}) == 1
        paid = [decision for decision in deletions if decision.repeats is None]
        assert [[topic.partitions for topic in decision.topics] for decision in paid] == [[1, 1]]


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


CASES = {
    "a port in use": (["gateway.first_port={taken}"], "{host}:{taken} is in use; set gateway.first_port or"),
    "brokers that bypass it": (
        ["gateway.advertised_by=brokers", "gateway.listeners={free}={host}:{port}"],
        "clients would bypass the gateway: brokers advertise {host}:{port}",
    ),
    "a certificate that is not for its key": (
        ["gateway.ssl_certificate_location={own.path}", "gateway.ssl_key_location={other.key}"],
        "cannot be used together: key values mismatch",
    ),
    "a file that is no certificate": (
        ["gateway.ssl_certificate_location={own.key}", "gateway.ssl_key_location={own.key}"],
        "gateway.ssl_certificate_location",
    ),
}
"""Settings and the expected line, by the name of the error."""


@pytest.fixture(scope="module")
def ground(base_settings, broker, tmp_path_factory):
    """Return the options of a deployment on the broker, and the values of the fields of the cases."""
    folder = tmp_path_factory.mktemp("bad")
    settings = prepared_deployment(base_settings, broker, "bad-start", folder)
    authority = Authority(folder / "certificates")
    certificates = {name: authority.sign(name, HOST) for name in ("own", "other")}
    with socket.create_server((HOST, 0)) as taken:
        ports = {"taken": taken.getsockname()[1], "free": free_port(), "port": broker.port}
        yield as_options(settings), {"host": HOST, **ports, **certificates}


@pytest.mark.timeout(90)  # one that starts would serve without end
@pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=CASES)
def test_a_failed_start_ends_with_a_line_that_says_what_to_change(ground, given, expected, capsys):
    """It never becomes ready."""
    options, values = ground
    own = set_options(*(setting.format(**values) for setting in given))
    with pytest.raises(BadInput) as error:
        app(["gateway", *options, *own], standalone_mode=False)
    assert expected.format(**values) in str(error.value)
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""
