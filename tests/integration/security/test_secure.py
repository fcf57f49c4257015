"""The whole job over TLS and SASL, on a broker whose authorizer lets each principal do what it has to and no more."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from deltalake import DeltaTable

from jobs.audit.query import start_audit
from jobs.background import background
from jobs.dashboard.feed import Feed
from jobs.enforce.query import start_enforce
from jobs.observe.following import Follower, FollowStats
from jobs.spark.queries import await_queries
from jobs.storage.files import DeploymentSession
from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.applier import Applier
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import write_record
from quota.kafka.reading import read_topic
from quota.kafka.requests_and_answers import RequestWriter
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import load_settings
from tests.integration.security.cluster import PASSWORD, secured_cluster
from tests.integration.security.leaks import CommandLines, files_with, talkative_log
from tests.support.broker import documented_acls
from tests.support.deployment import set_options, with_sections
from tests.support.factories import request_json
from tests.support.programs import run_process
from tests.support.request_log import created
from tests.support.topics import QUIET
from tests.support.waiting import until

KEY_PASSWORD = "key xyzzy"  # noqa: S105
STORAGE_SECRET = "storage-xyzzy"  # noqa: S105


def rate_of_tenant(cluster):
    """Return the current quota of the user tenant."""
    log = read_log(cluster.settings("operator"))
    return log.timeline.latest(QuotaEntity("tenant"), log.now).quota.rate


@pytest.fixture(scope="module")
def cluster(base_settings, tmp_path_factory):
    acls = documented_acls()
    acls["mute"] = [acl for acl in acls["enforce"] if acl[1] != "mutation-decisions" or acl[3] != "WRITE"]
    acls["mute"].append(("TOPIC", "mutation-decisions", "LITERAL", "DESCRIBE"))
    acls["blind"] = [("TOPIC", "mutation-quotas", "LITERAL", "DESCRIBE")]
    acls["application"] = [*acls["tenant"], ("TOPIC", "own-", "PREFIXED", "CREATE")]
    with secured_cluster(tmp_path_factory.mktemp("secure"), base_settings.broker.jars, acls, run_process) as running:
        yield running


def application(cluster):
    """Return librdkafka's own settings, as an application passes them to its client."""
    return {
        **QUIET,
        "bootstrap.servers": cluster.secure.address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "application",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(cluster.secure.authority.path),
        "client.id": "app",
    }


def of_topic(name, messages):
    """Return the records about one topic, without those of other tests, which may have run before."""
    records = [json.loads(message.value()) for message in messages]
    return [record for record in records if any(topic["name"] == name for topic in record["topics"])]


def test_the_whole_job_over_tls_with_acls_and_no_secret_anywhere(cluster):
    """An operator sets a quota; a tenant's request is decided and carried out, each by its own principal.

    An application with permission for its own topics carries its mutations out itself.
    """
    quota = ("quotas", "alter", "--user", "tenant", "--add-config", "controller_mutation_rate=2")
    done = cluster.command("operator", *quota)
    assert done.returncode == 0, done.stderr

    # All of it in a file, as a service has it, with Spark as talkative as operators make it.
    events, output = (cluster.folder / name for name in ("events", "output"))
    events.mkdir()
    output.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.driver.extraJavaOptions": talkative_log(cluster.folder),
        "spark.master": "local[2]",
    }
    config = set_options(*(f"spark.conf.{name}={value}" for name, value in conf.items()))
    file = cluster.folder / "settings.toml"
    file.write_text(f'[storage.options]\n"fs.s3a.secret.key" = "{STORAGE_SECRET}"\n')
    secrets = [PASSWORD.encode(), json.dumps(PASSWORD)[1:-1].encode(), STORAGE_SECRET.encode()]
    secrets.append(PASSWORD.replace("\\", "\\\\").replace('"', '\\"').encode())

    writer, tenant = RequestWriter(cluster.settings("tenant")), cluster.settings("tenant").kafka.connection
    writer.send_bytes(
        "mutation-requests", request_json(user="tenant", topics=[{"name": "tenant-topic", "partitions": 3}])
    )
    writer.flush(30)
    with QuotaAdminClient(application(cluster)) as client:
        futures = client.create_topics([NewTopic("own-topic", 3)], request_timeout=240)
        requests = cluster.settings("enforce").kafka.connection
        until(lambda: of_topic("own-topic", list(read_topic(requests, "mutation-requests", 10))))
        with CommandLines(*secrets) as seen:
            done = cluster.command("enforce", "--settings", str(file), *config, "enforce", "--once")
        assert done.returncode == 0, done.stderr[-2000:]
        assert futures["own-topic"].result(60) is None
    Applier(cluster.settings("applier"), threading.Event()).run(once=True)

    (decided,) = of_topic("tenant-topic", list(read_topic(tenant, "mutation-decisions", 10)))
    assert decided["quota"] == 2.0
    (result,) = of_topic("tenant-topic", list(read_topic(tenant, "mutation-results", 10)))
    assert [topic["error"] for topic in result["topics"]] == ["NONE"]
    (output / "stdout").write_text(done.stdout)
    (output / "stderr").write_text(done.stderr)
    assert "ConsumerConfig values" in done.stderr  # it was talkative
    assert files_with([b'"spark.hadoop.fs.s3a.secret.key":"*********(redacted)"'], events)  # and had the secret
    assert files_with(secrets, cluster.folder / "root", events, output) == []
    assert seen.jvms
    assert seen.leaks == []


def test_an_observer_has_the_permissions_that_it_needs_and_no_more(cluster):
    log = cluster.folder / "kafka-request.log"
    log.write_bytes(created("2026-11-22 17:39:55,315", ("observed-topic", 3)))
    Follower(cluster.settings("observe"), [log], FollowStats(), from_beginning=True).run(threading.Event(), once=True)
    requests = read_topic(cluster.settings("enforce").kafka.connection, "mutation-requests", 10)
    (request,) = of_topic("observed-topic", requests)
    assert (request["user"], request["observed"]["error_codes"]) == ("alice", [0])


def test_status_has_the_permissions_that_it_needs_and_reports_missing_ones(cluster):
    """The storage root plays no part here: other tests may or may not have used it."""
    names = {"requests", "decisions", "dead-letters", "quotas", "results", "positions"}

    seen, unseen = (
        json.loads(cluster.command(user, "status", "--output", "json").stdout) for user in ("status", "blind")
    )

    assert {topic["name"] for topic in seen["topics"] if topic["differences"] == []} == {
        f"mutation-{name}" for name in names
    }
    assert (seen["kafka"]["error"], [problem for problem in seen["problems"] if "cannot" in problem]) == (None, [])
    assert {topic["name"]: topic["exists"] for topic in unseen["topics"]}["mutation-requests"] is False
    assert "topic mutation-requests is missing, or this principal may not describe it" in unseen["problems"][1]
    assert unseen["problems"][0].startswith("the configs of topic mutation-quotas cannot be read")


def test_the_dashboard_has_the_permissions_that_it_needs(cluster):
    feed = Feed(cluster.settings("dashboard"))
    with background(feed.follow, "feed"):
        until(lambda: feed.contact.state == "live")


def test_certificates_replace_passwords(cluster, spark):
    """The audit connects by librdkafka and by Kafka's client in Java, with one encrypted key."""
    certificate = cluster.secure.authority.sign("audit", password=KEY_PASSWORD)
    settings = load_settings(
        [
            f"kafka.bootstrap_servers={cluster.secure.tls_address}",
            "kafka.security_protocol=SSL",
            f"kafka.ssl_ca_location={cluster.secure.authority.path}",
            f"kafka.ssl_certificate_location={certificate.path}",
            f"kafka.ssl_key_location={certificate.key}",
            f"kafka.ssl_key_password={KEY_PASSWORD}",
            f"storage.root={cluster.folder}/audit",
        ],
        environment={},
        with_default_file=False,
    )
    write_record(cluster.settings("operator"), QuotaRecord(QuotaEntity("someone"), 1.0))
    prepare_topics(settings, settings.topics.names[1:4])
    await_queries(threading.Event(), [start_audit(DeploymentSession.on(spark, settings), once=True)])
    kept = DeltaTable(settings.storage.table("quota_changes")).to_pyarrow_table().to_pylist()
    assert [row["controller_mutation_rate"] for row in kept if row["user"] == "someone"] == [1.0]


def test_a_query_without_permission_to_write_decisions_says_so(cluster, spark):
    """Neither its plan nor its progress contains the password."""
    settings = with_sections(cluster.settings("mute"), storage={"root": f"{cluster.folder}/mute"})
    writer = RequestWriter(cluster.settings("tenant"))
    writer.send_bytes(settings.topics.requests, request_json(1))
    writer.flush(30)
    query = start_enforce(DeploymentSession.on(spark, settings), once=True)
    with pytest.raises(MutationQuotaError, match=r"^enforce failed: .*Not authorized.*mutation-decisions") as raised:
        await_queries(threading.Event(), [query])
    texts = [str(raised.value), str(query.lastProgress), query._jsq.explainInternal(True)]  # noqa: SLF001
    assert "kafka" in texts[-1].lower()
    assert not any("xyzzy" in text for text in texts)


def test_an_error_is_one_line_without_the_secret(cluster):
    """Each error comes within the time limit; the commands run concurrently, since each waits for it."""
    wrong = {"sasl_password": "wrong-xyzzy"}
    named = ("sasl_mechanism", "sasl_username", "sasl_password", "ssl_ca_location")
    plain = {"security_protocol": "PLAINTEXT", **dict.fromkeys(named, "")}
    elsewhere = {"bootstrap_servers": cluster.secure.address.replace("127.0.0.1", "localhost")}
    cases = [
        ("operator", wrong, "invalid credentials"),
        ("operator", {"ssl_ca_location": ""}, "certificate verify failed"),
        ("operator", elsewhere, "certificate verify failed"),
        ("operator", plain, "for TLS or SASL also kafka.security_protocol"),
        ("tenant", {}, "cannot create topic mutation-quotas: Authorization failed; if it exists"),
        ("blind", {}, "cannot describe the topics mutation-quotas: "),
        ("enforce", {}, "the change is not set (Kafka at "),
    ]
    alter = ("quotas", "alter", "--user", "tenant", "--add-config", "controller_mutation_rate=1000")
    write_record(cluster.settings("operator"), QuotaRecord(QuotaEntity("tenant"), 3.0))

    def fails(case):
        user, more, _ = case
        return cluster.command(user, *alter, timeout_seconds=5, **more)

    with ThreadPoolExecutor(4) as threads:
        for (_, _, expected), done in zip(cases, threads.map(fails, cases), strict=True):
            assert (done.returncode, done.stdout) == (1, "")
            (line,) = done.stderr.splitlines()
            assert expected in line
            assert "xyzzy" not in line
    assert rate_of_tenant(cluster) == 3.0


def test_tenants_may_write_requests_and_no_more(cluster):
    """The broker rejects a quota that a tenant writes without the commands, and the tenant's read of quotas."""
    write_record(cluster.settings("operator"), QuotaRecord(QuotaEntity("tenant"), 3.0))
    tenant = cluster.settings("tenant")
    with pytest.raises(ClusterError, match=r"the change is not set .*: Broker: Topic authorization failed"):
        write_record(tenant, QuotaRecord(QuotaEntity("tenant"), 1000.0))
    with pytest.raises(ClusterError, match=r"cannot read the quotas .*: Broker: Topic authorization failed"):
        read_log(tenant)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        list(read_topic(cluster.settings("blind").kafka.connection, "mutation-quotas", 10))
    wrong = {**application(cluster), "sasl.password": "wrong-xyzzy", "mutation.quota.kafka.timeout_seconds": 2}
    with pytest.raises(ClusterError, match="invalid credentials") as raised:
        QuotaAdminClient(wrong)
    assert "xyzzy" not in str(raised.value)
    assert rate_of_tenant(cluster) == 3.0
