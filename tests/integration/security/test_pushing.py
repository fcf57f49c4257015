"""Quotas pushed to a cluster with authentication and ACLs: required permissions, and errors without them."""

from functools import partial

import pytest

from quota.kafka.quotas.writer import write_record
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.integration.security.cluster import PASSWORD, Cluster
from tests.support.broker import Authority, documented_acls
from tests.support.deployment import prepared_deployment, set_options, with_sections
from tests.support.gateway import protocol
from tests.support.kafka_configs import remove_all_quotas
from tests.support.programs import run
from tests.support.waiting import until

RATE = "controller_mutation_rate"
TOPIC = "pushing-quotas"
"""The quota topic of these tests, on a broker that others use, too."""


@pytest.fixture(scope="module")
def cluster(base_settings, secured, tmp_path_factory):
    prepared_deployment(base_settings, secured.broker, "pushing", tmp_path_factory.mktemp("deployment"))
    documented = documented_acls()
    for user in ("operator", "publisher", "push", "watch"):
        acls = [(kind, {"mutation-quotas": TOPIC}.get(name, name), *more) for kind, name, *more in documented[user]]
        secured.add_user(user, PASSWORD)
        secured.allow(user, acls)
    remove_all_quotas(secured.broker.address, protocol())
    yield Cluster(secured, tmp_path_factory.mktemp("pushing"), partial(run, *set_options(f"topics.quotas={TOPIC}")))
    remove_all_quotas(secured.broker.address, protocol())


def set_quota(cluster, user):
    """Set the quota of a user in the log."""
    settings = with_sections(cluster.settings("operator"), topics={"quotas": TOPIC})
    write_record(settings, QuotaRecord(QuotaEntity(user), 5.0))


def test_each_principal_has_the_permissions_on_the_page_and_no_more(cluster):
    """`watch` sees what `push` may set; `operator` has neither permission and sets quotas in the log alone."""
    set_quota(cluster, "tenant")
    done = cluster.command("operator", "quotas", "drift")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"mutation-quota: cannot read the quotas of Kafka at {cluster.secure.address}: "
        "CLUSTER_AUTHORIZATION_FAILED; allow this principal DescribeConfigs on the cluster "
        "(docs/explanation/security.md)\n"
    )
    done = cluster.command("watch", "quotas", "drift")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines()[0] == f"- user-principal 'tenant': {RATE}=5.0"

    done = cluster.command("watch", "quotas", "push", "--yes")
    assert done.returncode == 1
    assert done.stderr == (
        f"mutation-quota: cannot set the quotas of Kafka at {cluster.secure.address}: "
        "CLUSTER_AUTHORIZATION_FAILED; allow this principal AlterConfigs on the cluster "
        "(docs/explanation/security.md)\n"
    )
    done = cluster.command("push", "quotas", "push", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"+ user-principal 'tenant': {RATE}=5.0", "1 change made: 1 added."]
    assert cluster.command("watch", "quotas", "drift").returncode == 0
    done = cluster.command("watch", "quotas", "pull")
    assert "user: tenant" in done.stdout


def test_publishing_a_cluster_requires_permission_to_describe_all_of_its_topics(cluster):
    """An operator may write quotas and sees only the quota topic: most of the cluster would belong to no user."""
    done = cluster.command("operator", "callback", "publish-metadata")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Published 1 topic with 1 partition, ")
    # The first consumer of a broker, which may have been that of the operator, makes it create a topic of its own.
    topics = until(lambda: with_consumer_offsets(cluster.secure.admin))
    done = cluster.command("publisher", "callback", "publish-metadata")
    assert (done.returncode, done.stderr) == (0, "")
    partitions = sum(len(topic.partitions) for topic in topics.values())
    assert done.stdout.startswith(f"Published {len(topics):,} topics with {partitions:,} partitions, ")


def with_consumer_offsets(admin):
    """Return all topics if that of consumers' positions is among them."""
    topics = admin.list_topics(timeout=10).topics
    return topics if "__consumer_offsets" in topics else None


def test_quotas_are_pushed_to_a_cluster_with_client_certificates(cluster):
    """The connection differs from that of the log; without a certificate there is an error."""
    set_quota(cluster, "tenant-of-certificates")
    own = cluster.secure.authority.sign("push-by-certificate", password="key xyzzy")  # noqa: S106
    cluster.secure.allow("push-by-certificate", [("BROKER", "kafka-cluster", "LITERAL", "ALTER_CONFIGS")])
    anonymous = [
        f"kafka.target_servers={cluster.secure.tls_address}",
        "target.security_protocol=SSL",
        f"target.ssl_ca_location={cluster.secure.authority.path}",
    ]
    certificate = [
        f"target.ssl_certificate_location={own.path}",
        f"target.ssl_key_location={own.key}",
        "target.ssl_key_password=key xyzzy",
    ]
    done = cluster.command("watch", "quotas", "push", "--yes", *set_options(*anonymous, *certificate))
    assert (done.returncode, done.stderr) == (0, "")
    done = cluster.command("watch", "quotas", "push", "--dry-run", *set_options(*anonymous))
    assert done.returncode == 1
    assert f"cannot read the quotas of Kafka at {cluster.secure.tls_address}: " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sasl_username": "nobody"}, "Authentication failed"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "SCRAM-SHA-256 is not enabled on the broker; enabled are "),
        ({"ssl_ca_location": "another"}, "certificate verify failed"),
        (
            {
                "security_protocol": "PLAINTEXT",
                "sasl_mechanism": "",
                "sasl_username": "",
                "sasl_password": "",
                "ssl_ca_location": "",
            },
            "another security protocol",
        ),
    ],
)
def test_an_error_of_the_target_is_one_line_without_the_secret(cluster, tmp_path, more, reason):
    """The log is read with the right settings; the target's are wrong."""
    named = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "push",
        "sasl_password": f"file:{cluster.password_file}",
        "ssl_ca_location": cluster.secure.authority.path,
        **more,
    }
    if named["ssl_ca_location"] == "another":
        named["ssl_ca_location"] = Authority(tmp_path / "another").path
    given = [f"target.{name}={value}" for name, value in named.items() if value != ""]
    done = cluster.command("push", "quotas", "push", "--dry-run", *set_options(*given))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Kafka at {cluster.secure.address}: " in done.stderr
    assert reason in done.stderr
    assert "xyzzy" not in done.stderr
    assert done.stderr.count("\n") == 1
