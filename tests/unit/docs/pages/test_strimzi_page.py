"""The manifests for Strimzi: fields that exist, the documented ACLs and topics, and names that find each other."""

import jsonschema
import kubernetes_validate
import pytest
import yaml

from quota.kafka.topics.preparation import replicated
from quota.kafka.topics.specs import topic_specs
from quota.settings import load_settings
from tests.support.broker import documented_acls
from tests.support.checkout import CHECKOUT
from tests.unit.conf.chart import container, of_kind, pod, read_settings, rendered, secrets_of

EXAMPLES = CHECKOUT / "docs/how-to/examples/strimzi"
MANIFESTS = [
    manifest
    for name in ("users", "topics", "gateway", "operator")
    for manifest in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
]


def fields(required, **optional):
    """Return the schema of an object with these fields and no others."""
    properties = required | optional
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


TEXT, NUMBER = {"type": "string"}, {"type": "integer", "minimum": 1}
OPERATIONS = ["Read", "Write", "Create", "Delete", "Alter", "Describe", "DescribeConfigs", "AlterConfigs"]
ACL = fields(
    {
        "resource": fields(
            {"type": {"enum": ["topic", "group", "cluster", "transactionalId"]}},
            name=TEXT,
            patternType={"enum": ["literal", "prefix"]},
        ),
        "operations": {"type": "array", "items": {"enum": OPERATIONS}},
    }
)
OUR_SCHEMAS = {
    ("kafka.strimzi.io/v1", "KafkaUser"): fields(
        {
            "authentication": fields({"type": {"enum": ["tls", "tls-external", "scram-sha-512"]}}),
            "authorization": fields({"type": {"const": "simple"}, "acls": {"type": "array", "items": ACL}}),
        }
    ),
    ("kafka.strimzi.io/v1", "KafkaTopic"): fields(
        {"partitions": NUMBER, "replicas": NUMBER, "config": {"type": "object"}}
    ),
    ("cert-manager.io/v1", "Certificate"): fields(
        {
            "secretName": TEXT,
            "dnsNames": {"type": "array", "items": TEXT},
            "issuerRef": fields({"name": TEXT}, kind={"enum": ["Issuer", "ClusterIssuer"]}, group=TEXT),
        },
        privateKey=fields({}, algorithm={"enum": ["RSA", "ECDSA"]}, encoding={"const": "PKCS8"}, rotationPolicy=TEXT),
    ),
}
"""Specifications in schemas of ours, with the fields that the manifests use. Those of Strimzi are larger."""


def named(kind):
    """Return the manifests of a kind by name."""
    return {item["metadata"]["name"]: item for item in MANIFESTS if item["kind"] == kind}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda item: f"{item['kind']} {item['metadata']['name']}")
def test_each_field_of_a_manifest_exists(manifest):
    schema = OUR_SCHEMAS.get((manifest["apiVersion"], manifest["kind"]))
    if schema is None:
        kubernetes_validate.validate(manifest, "1.32", strict=True)
    else:
        jsonschema.validate(manifest["spec"], schema)
    assert manifest["metadata"]["namespace"] == "kafka"
    if "strimzi" in manifest["apiVersion"]:
        assert manifest["metadata"]["labels"] == {"strimzi.io/cluster": "my-cluster"}


@pytest.mark.parametrize(
    ("user", "principals"),
    [("enforce", ["enforce", "audit"]), ("gateway", ["gateway"]), ("operator", ["operator", "status"])],
)
def test_a_user_has_the_permissions_of_the_security_model(user, principals):
    """But no topics of users, and `operator` writes to the quota topic alone."""
    acls = named("KafkaUser")[f"mutation-quota-{user}"]["spec"]["authorization"]["acls"]
    given = {
        (acl["resource"]["type"], acl["resource"]["name"], acl["resource"]["patternType"], operation.lower())
        for acl in acls
        for operation in acl["operations"]
    }
    expected = {
        (kind.lower(), name, {"LITERAL": "literal", "PREFIXED": "prefix"}[pattern], operation.replace("_", "").lower())
        for principal in principals
        for kind, name, pattern, operation in documented_acls()[principal]
        if name != "mutation-requests."
    }
    assert given == expected


def test_the_topics_are_those_that_the_jobs_would_create():
    specs = [replicated(spec, 3) for spec in topic_specs(load_settings(environment={}))]
    expected = {spec.name: (spec.partitions, spec.replication_factor, dict(spec.configs)) for spec in specs}
    topics = {name: item["spec"] for name, item in named("KafkaTopic").items()}
    assert expected == {
        name: (spec["partitions"], spec["replicas"], {key: str(value) for key, value in spec["config"].items()})
        for name, spec in topics.items()
    }


@pytest.fixture
def release():
    """The objects of the chart for the values of the page."""
    return rendered({}, "values-strimzi.yaml", EXAMPLES / "values.yaml")


def test_the_release_uses_the_users_and_the_certificate(release, tmp_path):
    certificate, entry = named("Certificate")["mutation-quota-gateway"]["spec"], named("Service")["kafka-entry"]
    for name in ("enforce", "gateway"):
        assert secrets_of(release, name)["kafka"] in named("KafkaUser")
    assert secrets_of(release, "gateway")["tls"] == certificate["secretName"]
    gateway = read_settings(release, "gateway", tmp_path).gateway
    assert set(certificate["dnsNames"]) == {gateway.advertised_host, "kafka-entry.kafka.svc"}
    template = of_kind(release, "Deployment")["-gateway"]["spec"]["template"]
    assert entry["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert entry["spec"]["ports"][0]["targetPort"] == gateway.ports[0][0]
    assert gateway.when_silent == "open"


def test_one_pod_decides_and_audits_on_a_volume_for_one_node(release, tmp_path):
    assert of_kind(release, "Deployment").keys() == {"-enforce", "-gateway"}
    assert read_settings(release, "enforce", tmp_path).enforce.with_audit
    assert of_kind(release, "Deployment")["-enforce"]["spec"]["replicas"] == 1
    assert of_kind(release, "PersistentVolumeClaim")[""]["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_the_pod_for_commands_runs_beside_enforce_with_its_settings_its_volume_and_another_user(release):
    spec = named("Deployment")["mutation-quota-operator"]["spec"]["template"]["spec"]
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = of_kind(release, "Deployment")["-enforce"]["spec"]["template"]["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    theirs = {volume["name"]: volume for volume in pod(release, "enforce")["volumes"]}
    for volume in spec["volumes"]:
        if volume["name"] in {"settings", "brokers-ca", "data"}:
            assert volume == theirs[volume["name"]]
    (own,) = spec["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container(release, "enforce")["volumeMounts"]}
    mounts["settings"] = "/tmp/conf"  # noqa: S108 a folder of the pod: conf/mutation-quota.toml is the default file
    assert {mount["name"]: mount["mountPath"] for mount in own["volumeMounts"]} == mounts
    assert own["image"] == container(release, "enforce")["image"]
    (secret,) = [volume["secret"]["secretName"] for volume in spec["volumes"] if volume["name"] == "kafka"]
    assert {"name": "MUTATION_QUOTA__KAFKA__SASL_USERNAME", "value": secret} in own["env"]
