"""The manifests of Kubernetes: what it takes, settings that the programs take, and rights that end where they must."""

import kubernetes_validate
import pytest

from jobs.spark import queries, session
from tests.support.checkout import CHECKOUT
from tests.unit.deployment.manifests import (
    COMMANDS,
    FOLDER,
    PROBED,
    container,
    documents,
    environment_of,
    of_kind,
    pod_template,
    read_settings,
)

OLDEST, NEWEST = "1.32", "1.37"
"""Versions of Kubernetes whose schemas are tried."""

FILES = sorted(FOLDER.glob("*.yaml"))
SECURITY = (CHECKOUT / "docs/explanation/security.md").read_text()
NATIVE = [each for file in FILES for each in documents(file.stem) if each["kind"] != "ServiceMonitor"]


def config_map_of(name):
    (volume,) = [each for each in pod_template(name)["spec"]["volumes"] if each["name"] == "settings"]
    found = volume["configMap"]["name"]
    return "settings" if found == "mutation-quota" else name


def test_every_service_that_answers_probes_has_a_manifest():
    with_pods = {file.stem for file in FILES if "Deployment" in {each["kind"] for each in documents(file.stem)}}
    assert with_pods == set(PROBED)


@pytest.fixture
def settings(tmp_path):
    """Return a function from a service to the settings that it reads."""

    def read(name):
        return read_settings(config_map_of(name), tmp_path, environment_of(name))

    return read


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("document", NATIVE, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_kubernetes_defines_every_field(document, version):
    """Kubernetes' own schemas reject unknown fields."""
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("name", PROBED)
def test_each_service_has_its_own_account_without_a_token(name):
    account = of_kind(name, "ServiceAccount")
    spec = pod_template(name)["spec"]
    assert spec["serviceAccountName"] == account["metadata"]["name"] == f"mutation-quota-{name}"
    assert account["automountServiceAccountToken"] is spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", PROBED)
def test_a_service_runs_unprivileged_and_writes_only_to_its_volumes(name):
    """It meets Kubernetes' restricted policy for pods, and has a read-only root file system."""
    spec = pod_template(name)["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["runAsGroup"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {each["mountPath"] for each in container(name)["volumeMounts"] if not each.get("readOnly")}
    assert writable == ({"/tmp", "/data"} if name in {"enforce", "audit"} else {"/tmp"})  # noqa: S108


@pytest.mark.parametrize("name", PROBED)
def test_manifests_contain_no_secrets_and_each_service_has_its_own(name, settings):
    secrets = [each["secret"]["secretName"] for each in pod_template(name)["spec"]["volumes"] if "secret" in each]
    assert secrets[0] == f"mutation-quota-{name}"
    assert all(each.startswith(f"mutation-quota-{name}") for each in secrets)
    found = settings(name).kafka
    assert found.sasl_username == name
    assert f"--allow-principal User:{name} " in SECURITY  # the page has its ACLs
    assert found.security.sasl_password == "secret"  # noqa: S105 of the test's file
    assert not any("PASSWORD" in each or "SECRET" in each for each in environment_of(name))


@pytest.mark.parametrize("name", PROBED)
def test_a_service_is_probed_where_it_answers(name, settings):
    found = settings(name)
    (port,) = [each["containerPort"] for each in container(name)["ports"] if each["name"] == "http"]
    assert port == (found.dashboard.port if name == "dashboard" else found.metrics.port)
    probes = {kind: container(name)[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {
        "startupProbe": {"path": "/healthz", "port": "http"},
        "livenessProbe": {"path": "/healthz", "port": "http"},
        "readinessProbe": {"path": "/readyz", "port": "http"},
    }
    assert found.metrics.address == "0.0.0.0"  # noqa: S104 every client that reaches the pod


@pytest.mark.parametrize("name", PROBED)
def test_the_program_reads_the_mounted_settings(name, settings):
    settings(name)
    words = COMMANDS.get(name, [name])
    assert container(name)["args"][: len(words)] == words
    (file,) = of_kind(config_map_of(name), "ConfigMap")["data"]
    assert container(name)["args"][-2:] == ["--settings", f"/etc/mutation-quota/{file}"]


@pytest.mark.parametrize("name", ["enforce", "audit", "applier", "observe"])
def test_a_service_with_one_instance_is_stopped_before_the_next_one_starts(name):
    spec = of_kind(name, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_each_broker_has_a_port_of_the_gateways_service_for_its_listener(settings):
    named = {each["name"]: each["containerPort"] for each in container("gateway")["ports"]}
    ports = of_kind("gateway", "Service")["spec"]["ports"]
    found = settings("gateway").gateway
    assert {each["port"]: named[each["targetPort"]] for each in ports} == {port: port for port, _ in found.ports}
    assert found.address == "0.0.0.0"  # noqa: S104 every client that reaches the pod


def test_the_gateway_is_not_killed_while_mutations_are_pending(settings):
    _, waits = container("gateway")["lifecycle"]["preStop"]["exec"]["command"]
    grace = pod_template("gateway")["spec"]["terminationGracePeriodSeconds"]
    assert grace > int(waits) + settings("gateway").gateway.drain_seconds + 5


@pytest.mark.parametrize("name", ["enforce", "audit"])
def test_a_job_is_not_killed_before_its_batch_and_its_jvm_have_ended(name):
    grace = pod_template(name)["spec"]["terminationGracePeriodSeconds"]
    assert grace > queries._BATCH_SECONDS + session._END_SECONDS + 15  # noqa: SLF001 15 s for Spark to stop


def test_the_applier_is_not_killed_while_a_mutation_is_pending(settings):
    grace = pod_template("applier")["spec"]["terminationGracePeriodSeconds"]
    assert grace > settings("applier").applier.timeout_seconds + 15  # and its results are written
