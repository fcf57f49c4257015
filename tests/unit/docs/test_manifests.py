"""The manifests of Kubernetes: what the Spark operator takes, and settings that the jobs take."""

import pytest
import yaml
from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication

from jobs.spark.properties import spark_defaults
from quota.settings import load_settings
from tests.support.broker import CERTIFICATE_PEM
from tests.support.checkout import CHECKOUT

FOLDER = CHECKOUT / "conf" / "kubernetes"
QUERIES = ("enforce", "audit", "minutes")


def documents(name):
    """What stands in a manifest, by its kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())}


def application(query):
    return documents(query)["SparkApplication"]


@pytest.fixture
def settings(tmp_path):
    """What the jobs read of the settings' manifest, with its secrets mounted here."""
    text = documents("settings")["ConfigMap"]["data"]["mutation-quota.toml"]
    mounted = {"password": "secret", "ca.pem": CERTIFICATE_PEM}
    for name, content in mounted.items():
        (tmp_path / name).write_text(content)
    file = tmp_path / "mutation-quota.toml"
    file.write_text(text.replace("/run/secrets/kafka", str(tmp_path)))
    return load_settings(file=file, environment={})


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
    assert spec["arguments"] == [query, "--config", f"{config_map['path']}/{file}"]
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
