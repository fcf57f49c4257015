"""The manifests for the Kubeflow Spark operator: valid fields, and permissions for executors and nothing else."""

import pytest
import yaml
from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication

from jobs.spark.properties import spark_defaults
from tests.unit.deployment.manifests import FOLDER, of_kind, read_settings

QUERIES = ("enforce", "audit")


def application(query):
    return yaml.safe_load((FOLDER / "spark-operator" / f"{query}.yaml").read_text())


def documents(name):
    return {each["kind"]: each for each in yaml.safe_load_all((FOLDER / "spark-operator" / name).read_text())}


@pytest.fixture
def settings(tmp_path):
    return read_settings("settings", tmp_path, {"MUTATION_QUOTA__KAFKA__SASL_USERNAME": "enforce"})


@pytest.mark.parametrize("query", QUERIES)
def test_the_operator_defines_every_field(query):
    """The operator's own models drop an unknown field, and reject one of a different type."""
    given = application(query)
    assert SparkV1beta2SparkApplication.from_dict(given).to_dict() == given


@pytest.mark.parametrize("query", QUERIES)
def test_measured_properties_are_not_duplicated(query):
    assert not application(query)["spec"]["sparkConf"].keys() & spark_defaults().keys()


@pytest.mark.parametrize("query", QUERIES)
def test_the_program_finds_the_mounted_files(query, settings):
    spec = application(query)["spec"]
    driver = spec["driver"]
    (config_map,) = driver["configMaps"]
    (secret,) = driver["secrets"]
    declared = of_kind("settings", "ConfigMap")
    (file,) = declared["data"]
    assert spec["arguments"] == [query, "--settings", f"{config_map['path']}/{file}"]
    assert config_map["name"] == declared["metadata"]["name"]
    assert f'"{secret["path"]}/password"' in declared["data"][file]
    assert secret["name"] == f"mutation-quota-{query}"
    assert driver["env"] == [{"name": "MUTATION_QUOTA__KAFKA__SASL_USERNAME", "value": query}]
    (volume,) = spec["volumes"]
    assert (
        volume["persistentVolumeClaim"]["claimName"] == of_kind("settings", "PersistentVolumeClaim")["metadata"]["name"]
    )
    for each in (driver, spec["executor"]):
        assert each["volumeMounts"] == [{"name": volume["name"], "mountPath": settings.storage.root}]


@pytest.mark.parametrize("query", QUERIES)
def test_the_driver_is_probed_and_scraped_where_it_answers(query, settings):
    driver = application(query)["spec"]["driver"]
    assert {each["name"]: each["containerPort"] for each in driver["ports"]} == {"http": settings.metrics.port}
    (container,) = driver["template"]["spec"]["containers"]
    assert container["name"] == "spark-kubernetes-driver"  # by which Spark finds it in a template
    probes = {kind: container[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert driver["labels"]["app.kubernetes.io/name"] == f"mutation-quota-{query}"


@pytest.mark.parametrize("query", QUERIES)
def test_the_drivers_account_may_manage_executors_and_nothing_else(query):
    rights = documents("rights.yaml")
    account = rights["ServiceAccount"]["metadata"]["name"]
    assert application(query)["spec"]["driver"]["serviceAccount"] == account
    (subject,) = rights["RoleBinding"]["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", account)
    assert rights["RoleBinding"]["roleRef"]["name"] == rights["Role"]["metadata"]["name"]
    permitted = {
        (group, resource): set(rule["verbs"])
        for rule in rights["Role"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    executors = {"get", "list", "watch", "create", "delete", "deletecollection"}
    assert permitted == {  # no secrets, and neither update nor patch
        ("", "pods"): executors,
        ("", "services"): executors,
        ("", "configmaps"): executors,
        ("", "persistentvolumeclaims"): {"list", "delete", "deletecollection"},
    }


@pytest.mark.parametrize("query", QUERIES)
def test_driver_and_executors_run_without_privileges(query):
    for part in ("driver", "executor"):
        each = application(query)["spec"][part]
        assert each["podSecurityContext"]["runAsNonRoot"] is True
        assert each["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_both_queries_have_the_same_configuration():
    found = [yaml.safe_dump(application(query)["spec"]).replace(query, "query") for query in QUERIES]
    enforce, audit = map(yaml.safe_load, found)
    del enforce["executor"]["instances"], audit["executor"]["instances"]
    assert enforce == audit
