"""The manifests of Kubernetes: what it and the Spark operator take, and settings that the programs take."""

import pytest
import yaml
from kubeflow_spark_api.models.io_k8s_api_core_v1_config_map import IoK8sApiCoreV1ConfigMap
from kubeflow_spark_api.models.io_k8s_api_core_v1_pod_template_spec import IoK8sApiCoreV1PodTemplateSpec
from kubeflow_spark_api.models.io_k8s_api_core_v1_service import IoK8sApiCoreV1Service
from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication

from jobs.spark.properties import spark_defaults
from quota.settings import load_settings
from tests.support.broker import CERTIFICATE_PEM
from tests.support.checkout import CHECKOUT

FOLDER = CHECKOUT / "conf" / "kubernetes"
QUERIES = ("enforce", "audit", "minutes")
MOUNTED = {
    "kafka/password": "secret",
    "kafka/ca.pem": CERTIFICATE_PEM,
    "tls/tls.crt": CERTIFICATE_PEM,
    "tls/tls.key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
}


def documents(name):
    """What stands in a manifest, by its kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())}


def application(query):
    return documents(query)["SparkApplication"]


def read_settings(manifest, folder):
    """What a program reads of a manifest's settings, with its secrets mounted in a folder."""
    text = documents(manifest)["ConfigMap"]["data"]["mutation-quota.toml"]
    for name, content in MOUNTED.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    file = folder / "mutation-quota.toml"
    file.write_text(text.replace("/run/secrets", str(folder)))
    return load_settings(file=file, environment={})


@pytest.fixture
def settings(tmp_path):
    return read_settings("settings", tmp_path)


@pytest.fixture
def gateway_settings(tmp_path):
    return read_settings("gateway", tmp_path)


@pytest.mark.parametrize("query", QUERIES)
def test_the_operator_knows_every_field(query):
    """By its own models: a field that they do not know is not there any more, one of another type is an error."""
    given = application(query)
    assert SparkV1beta2SparkApplication.from_dict(given).to_dict() == given


@pytest.mark.parametrize("query", QUERIES)
def test_what_was_measured_has_no_second_copy(query):
    assert not application(query)["spec"]["sparkConf"].keys() & spark_defaults().keys()


@pytest.mark.parametrize("query", QUERIES)
def test_the_program_finds_what_is_mounted(query, settings):
    spec = application(query)["spec"]
    (config_map,) = spec["driver"]["configMaps"]
    (secret,) = spec["driver"]["secrets"]
    declared = documents("settings")
    (file,) = declared["ConfigMap"]["data"]
    assert spec["arguments"] == [query, "--settings", f"{config_map['path']}/{file}"]
    assert config_map["name"] == declared["ConfigMap"]["metadata"]["name"]
    assert f'"{secret["path"]}/password"' in declared["ConfigMap"]["data"][file]
    (volume,) = spec["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == declared["PersistentVolumeClaim"]["metadata"]["name"]
    for pod in (spec["driver"], spec["executor"]):
        assert pod["volumeMounts"] == [{"name": volume["name"], "mountPath": settings.storage.root}]


@pytest.mark.parametrize("query", QUERIES)
def test_metrics_are_served_where_they_are_looked_for(query, settings):
    driver = application(query)["spec"]["driver"]
    assert [each["containerPort"] for each in driver["ports"]] == [settings.metrics.port]
    assert driver["annotations"]["prometheus.io/port"] == str(settings.metrics.port)
    assert settings.metrics.address == "0.0.0.0"  # noqa: S104 whoever reaches the pod


def test_all_queries_run_alike():
    first, *others = (application(query)["spec"] for query in QUERIES)
    for spec in (first, *others):
        del spec["arguments"], spec["executor"]["instances"]
    assert others == [first] * len(others)


@pytest.fixture
def gateway():
    return documents("gateway")


@pytest.fixture
def pod(gateway):
    return gateway["Deployment"]["spec"]["template"]["spec"]


def test_kubernetes_knows_every_field_of_the_gateway(gateway):
    """By its own models, as the operator's have them; they hold no deployments and budgets, whose fields are few."""
    template = gateway["Deployment"]["spec"].pop("template")
    assert IoK8sApiCoreV1PodTemplateSpec.from_dict(template).to_dict() == template
    for kind, model in {"Service": IoK8sApiCoreV1Service, "ConfigMap": IoK8sApiCoreV1ConfigMap}.items():
        assert model.from_dict(gateway[kind]).to_dict() == gateway[kind]
    name = {"name": "mutation-quota-gateway"}
    selector = {"matchLabels": template["metadata"]["labels"]}
    deployment = {"replicas": 2, "selector": selector}
    budget = {"minAvailable": 1, "selector": selector}
    assert gateway["Deployment"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": name,
        "spec": deployment,
    }
    assert gateway["PodDisruptionBudget"] == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": name,
        "spec": budget,
    }
    assert gateway["Service"]["spec"]["selector"] == template["metadata"]["labels"]
    (spread,) = template["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == selector


def test_each_broker_has_a_port_of_the_gateways_service_that_leads_to_its_listener(gateway, pod, gateway_settings):
    (container,) = pod["containers"]
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    service = {each["port"]: named[each["targetPort"]] for each in gateway["Service"]["spec"]["ports"]}
    assert service == {port: port for port, _ in gateway_settings.gateway.ports}
    assert gateway_settings.gateway.address == "0.0.0.0"  # noqa: S104 whoever reaches the pod


def test_the_gateway_finds_what_is_mounted(gateway, pod, gateway_settings):
    (container,) = pod["containers"]
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert mounted.keys() == volumes.keys()
    assert volumes["settings"]["configMap"]["name"] == gateway["ConfigMap"]["metadata"]["name"]
    (file,) = gateway["ConfigMap"]["data"]
    assert container["args"] == ["gateway", "--settings", f"{mounted['settings']}/{file}"]
    text = gateway["ConfigMap"]["data"][file]
    assert f'"{mounted["kafka"]}/password"' in text
    assert f'"{mounted["tls"]}/tls.crt"' in text
    assert f"COPY kafka-clients/ {gateway_settings.gateway.kafka_clients}/" in (FOLDER / "Dockerfile").read_text()


def test_the_gateway_is_probed_and_scraped_where_it_answers(gateway, pod, gateway_settings):
    (container,) = pod["containers"]
    (metrics,) = [each["containerPort"] for each in container["ports"] if each["name"] == "metrics"]
    assert gateway_settings.metrics.port == metrics
    assert gateway["Deployment"]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == str(metrics)
    probes = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {
        "livenessProbe": {"path": "/healthz", "port": "metrics"},
        "readinessProbe": {"path": "/readyz", "port": "metrics"},
    }


def test_the_gateway_is_not_killed_while_mutations_are_under_way(pod, gateway_settings):
    (container,) = pod["containers"]
    _, waits = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["terminationGracePeriodSeconds"] > int(waits) + gateway_settings.gateway.drain_seconds + 5
