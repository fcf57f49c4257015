"""Clients that log in by tokens (OAUTHBEARER), on a broker with an authorizer and the documented ACLs."""

import asyncio
import json
import pickle
import subprocess
import threading

import pytest
from confluent_kafka.admin import NewTopic

from jobs.enforce.query import start_enforce
from jobs.gateway.brokers import advertised_addresses
from jobs.gateway.encryption import make_encryption
from jobs.spark.queries import await_queries
from jobs.storage.files import DeploymentSession
from quota.errors import ClusterError
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.applier import Applier
from quota.kafka.brokers.cluster_quotas import ClusterQuotas
from quota.kafka.quotas.log import KafkaQuotas, QuotaLog
from quota.kafka.quotas.writer import write_record
from quota.kafka.reading import read_topic
from quota.kafka.requests_and_answers import RequestWriter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import load_settings
from quota.settings.connection import ALLOWED_URLS
from tests.integration.security.leaks import CommandLines, files_with, talkative_log
from tests.support.checkout import CHECKOUT
from tests.support.deployment import set_options
from tests.support.factories import request_json
from tests.support.gateway import protocol
from tests.support.programs import command_line, run, run_process
from tests.support.token_broker import SECRETS, token_broker
from tests.support.topics import QUIET
from tests.support.waiting import until

LIFETIME_SECONDS = 22
"""Of the tokens that a job renews. Spark's clients renew them 15 s before they expire; below 20 s, they warn."""

DEADLINE_SECONDS = 120


@pytest.fixture(scope="module")
def cluster(base_settings, tmp_path_factory):
    with token_broker(tmp_path_factory.mktemp("tokens"), base_settings.broker.jars) as running:
        yield running


def application(cluster):
    """Return librdkafka's own settings, as an application passes them to its client."""
    return {
        **QUIET,
        "bootstrap.servers": cluster.address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(cluster.authority.path),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": cluster.tls.url,
        "sasl.oauthbearer.client.id": "application",
        "sasl.oauthbearer.client.secret": SECRETS["application"],
        "https.ca.location": str(cluster.authority.path),
        "client.id": "app",
    }


def command(cluster, user, *args, how=run_process, server=None, more=(), **kafka):
    """Run a command as a user; what it did."""
    return how(*set_options(*cluster.options(user, server, **kafka), *more), *args, cwd=cluster.folder)


def decided(cluster):
    return records(cluster, "mutation-decisions")


def records(cluster, topic):
    read = read_topic(cluster.settings("tenant").kafka.connection, topic, 10)
    return [json.loads(each.value()) for each in read]


@pytest.mark.nightly
def test_the_whole_job_by_tokens_and_no_secret_anywhere(cluster):
    """Each by its own principal, with Spark's log of its Kafka clients as talkative as it gets.

    The applier creates a tenant's topic; an application with permission for its own topics creates them itself.
    """
    done = command(
        cluster, "operator", "quotas", "alter", "--user", "tenant", "--add-config", "controller_mutation_rate=2"
    )
    assert done.returncode == 0, done.stderr
    output = cluster.folder / "output"
    output.mkdir()
    conf = {
        "spark.driver.extraJavaOptions": talkative_log(cluster.folder),
        "spark.master": "local[2]",
    }
    more = [f"spark.conf.{name}={value}" for name, value in conf.items()] + ["kafka.java.metrics.num.samples=17"]
    secrets = [SECRETS["enforce"].encode(), SECRETS["enforce"].replace("\\", "\\\\").replace('"', '\\"').encode()]

    topics, writer = [{"name": "tenant-topic", "partitions": 3}], RequestWriter(cluster.settings("tenant"))
    with QuotaAdminClient(application(cluster)) as client:
        futures = client.create_topics([NewTopic("own-topic", 3)], request_timeout=240)
        requests = cluster.settings("enforce").kafka.connection
        until(lambda: list(read_topic(requests, "mutation-requests", 10)))
        writer.send_bytes("mutation-requests", request_json(request_id="by-record", user="tenant", topics=topics))
        writer.flush(30)
        with CommandLines(*secrets) as seen:
            done = command(cluster, "enforce", "enforce", "--once", more=more)
        assert done.returncode == 0, done.stderr[-2000:]
        assert futures["own-topic"].result(60) is None
    Applier(cluster.settings("applier"), threading.Event()).run(once=True)

    by_topic = {each["topics"][0]["name"]: (each["user"], each["quota"]) for each in decided(cluster)}
    assert (by_topic["tenant-topic"], by_topic["own-topic"]) == (("tenant", 2.0), ("application", None))
    (result,) = [each for each in records(cluster, "mutation-results") if each["request_id"] == "by-record"]
    assert result["topics"][0]["error"] == "NONE"
    (output / "stderr").write_text(done.stderr)
    assert "sasl.jaas.config,org.apache.kafka" in done.stderr
    assert "metrics.num.samples = 17" in done.stderr  # in Kafka's own log; Spark's hides it
    assert "metrics.num.samples,*********(redacted)" in done.stderr
    assert "WARN org.apache.kafka.common.security.oauthbearer" not in done.stderr
    assert files_with(secrets, cluster.folder / "root", output) == []
    assert seen.jvms
    assert seen.leaks == []


def by_function(cluster, user):
    """Settings by which librdkafka has tokens from a function, and Java's clients from the token server."""
    java = cluster.settings(user).kafka.security.oauth.java() | {"sasl.mechanism": "OAUTHBEARER"}
    return [
        f"kafka.bootstrap_servers={cluster.address}",
        "kafka.security_protocol=SASL_SSL",
        f"kafka.ssl_ca_location={cluster.authority.path}",
        "kafka.sasl_mechanism=OAUTHBEARER",
        "kafka.sasl_oauthbearer_token_function=tests.support.token_server:signed_token",
        f"kafka.librdkafka.sasl.oauthbearer.config={cluster.folder}={user}",
        *(f"kafka.java.{name}={value}" for name, value in java.items()),
        f"storage.root={cluster.folder}/by-function",
    ]


def settings_by_function(cluster, user):
    return load_settings(by_function(cluster, user), environment={}, with_default_file=False)


def test_a_function_provides_tokens_to_commands_and_to_what_workers_are_sent(cluster):
    """Workers of Spark are sent no connection, but how to connect for the quotas."""
    given = set_options(*by_function(cluster, "operator"))
    done = run_process(
        *given, "quotas", "describe", "--output", "json", cwd=CHECKOUT
    )  # where the function can be imported
    assert (done.returncode, done.stderr) == (0, "")
    watching = settings_by_function(cluster, "gateway")
    with pytest.raises(ClusterError, match="CLUSTER_AUTHORIZATION_FAILED"):  # it is logged in
        ClusterQuotas(watching.kafka.connection, protocol(), 10).read()

    write_record(cluster.settings("operator"), QuotaRecord(QuotaEntity("by-function"), 4.0))
    sent = pickle.dumps(KafkaQuotas.from_settings(settings_by_function(cluster, "enforce"), 10))
    log = QuotaLog(pickle.loads(sent))  # noqa: S301 its own
    log.read_to_end()
    assert log.timeline.latest(QuotaEntity("by-function"), log.now).quota.rate == 4.0


@pytest.mark.nightly
def test_a_query_logs_in_by_javas_properties_and_its_workers_by_the_function(cluster, spark):
    writer = RequestWriter(cluster.settings("tenant"))
    writer.send_bytes("mutation-requests", request_json(1, request_id="by-function"))
    writer.flush(30)
    run = DeploymentSession.on(spark, settings_by_function(cluster, "enforce"))
    await_queries(threading.Event(), [start_enforce(run, once=True)])
    assert "by-function" in {each["request_id"] for each in decided(cluster)}


def test_the_gateways_own_login_and_that_of_quotas_push(cluster):
    """Both connect without librdkafka."""
    settings = cluster.settings("gateway")
    connection, encryption = settings.kafka.connection, make_encryption(settings.gateway, settings.kafka)
    found = asyncio.run(advertised_addresses(connection.addresses, connection.security, encryption, protocol(), 10))
    assert found == {1: connection.addresses[0]}
    with pytest.raises(ClusterError, match="CLUSTER_AUTHORIZATION_FAILED; allow this principal DescribeConfigs"):
        ClusterQuotas(connection, protocol(), 10).read()


def test_a_token_is_renewed_while_a_client_runs(cluster):
    """The broker ends sessions with their tokens."""
    cluster.plain.lifetime_seconds = 6
    try:
        granted = cluster.plain.granted
        before = len(granted)
        log = QuotaLog(KafkaQuotas.from_settings(cluster.settings("operator", cluster.plain), 10))
        until(lambda: len(granted) >= before + 3)
        write_record(cluster.settings("operator"), QuotaRecord(QuotaEntity("renewed"), 4.0))
        log.read_to_end()
        assert log.timeline.latest(QuotaEntity("renewed"), log.now).quota.rate == 4.0
    finally:
        cluster.plain.lifetime_seconds = 3600


def test_kafkas_client_in_sparks_jvm_renews_its_token_before_it_expires(cluster, spark, monkeypatch):
    """By the properties that a job gives it; the nightly test waits until the job's first token has expired."""
    monkeypatch.setattr(cluster.tls, "lifetime_seconds", LIFETIME_SECONDS)
    before, jvm = len(cluster.tls.granted), spark._jvm  # noqa: SLF001 as the jobs do
    jvm.System.setProperty(ALLOWED_URLS, cluster.tls.url)
    properties = jvm.java.util.Properties()
    for name, value in cluster.settings("enforce").kafka.connection.java().items():
        properties.setProperty(name, value)
    client = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        until(lambda: len(cluster.tls.granted) == before + 2, LIFETIME_SECONDS)
        assert client.describeCluster().clusterId().get()
    finally:
        client.close()
    first, second = cluster.tls.granted[before:]
    assert (first.client_id, first.to_java, second.to_java) == ("enforce", True, True)
    assert second.at - first.at < LIFETIME_SECONDS - 10


@pytest.mark.nightly
def test_enforce_renews_its_tokens_and_ends_when_none_are_issued(cluster, monkeypatch):
    """Only the requests of Spark's clients in Java count. The broker ends sessions with their tokens."""
    monkeypatch.setattr(cluster.tls, "lifetime_seconds", LIFETIME_SECONDS)
    before = len(cluster.tls.granted)
    options = set_options(*cluster.options("enforce"))
    log = cluster.folder / "enforce.log"
    with log.open("wb") as output:
        job = subprocess.Popen(command_line("enforce", *options), stdout=output, stderr=output, cwd=cluster.folder)

    def runs_beyond_the_first_token():
        assert job.poll() is None, log.read_text()[-2000:]
        granted = [each for each in cluster.tls.granted[before:] if each.client_id == "enforce" and each.to_java]
        return granted and granted[-1].at > granted[0].at + LIFETIME_SECONDS

    try:
        until(runs_beyond_the_first_token, DEADLINE_SECONDS)
        writer = RequestWriter(cluster.settings("tenant", cluster.plain))
        writer.send_bytes("mutation-requests", request_json(1, request_id="after-renewal"))
        writer.flush(30)
        until(lambda: "after-renewal" in {each["request_id"] for each in decided(cluster)})
        assert "ExpiringCredentialRefreshingLogin" not in log.read_text()  # no warning at each renewal
        cluster.tls.stop()
        try:
            assert job.wait(DEADLINE_SECONDS) == 1
        finally:
            cluster.tls.start()
    finally:
        job.kill()
        job.wait()
    printed = log.read_text()
    assert "mutation-quota: enforce failed: " in printed
    advice = "rejects the login, or a token has expired while the token server is unavailable; check both, then start "
    assert printed.endswith(
        f"; Kafka at {cluster.address} {advice}it again: it continues from its checkpoint, and nothing is lost\n"
    )


@pytest.mark.parametrize(
    "args",
    [
        ("quotas", "describe"),
        ("quotas", "drift"),
        ("status",),
        ("applier", "--once"),
        ("gateway",),
        # Before they start a JVM.
        ("enforce",),
        ("audit",),
    ],
    ids=" ".join,
)
def test_a_login_that_fails_is_one_line_with_the_token_servers_message(cluster, tmp_path, args):
    """The unit tests of `quota.kafka.brokers.tokens` have the messages for other errors."""
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong-xyzzy")
    given = {"sasl_oauthbearer_client_secret": f"file:{wrong}"}
    given["timeout_seconds"] = 10 if args == ("gateway",) else 1  # it asks the brokers first
    done = command(cluster, "operator", *args, how=run, **given)
    expected = f"cannot get a token for client operator from {cluster.tls.url}: 401 invalid_client: the client"
    assert done.returncode == 1
    assert "xyzzy" not in done.stdout + done.stderr
    if args == ("status",):  # a report, with the problem among its lines
        assert expected in " ".join(done.stdout.split())
        return
    (line,) = done.stderr.splitlines()
    assert line.startswith("mutation-quota: ")
    assert expected in line
