"""The Helm chart: what Kubernetes takes, settings that the programs take, and rights that end where they must."""

import functools
import re

import kubernetes_validate
import pytest
import yaml

import quota
from conf.docs.settings import READ_BY
from conf.release.chart import write_chart
from jobs.spark import queries, session
from tests.support.checkout import CHECKOUT
from tests.support.monitoring import RULES_FILE
from tests.unit.conf.chart import (
    ALL,
    CHART,
    COMMANDS,
    PROBED,
    container,
    deployments,
    helm,
    of_kind,
    pod,
    read_settings,
    rendered,
    secrets_of,
)

OLDEST, NEWEST = "1.32", "1.37"
"""Versions of Kubernetes whose schemas are tried; a field that the oldest one lacks is the likelier mistake."""

OF_THE_OPERATOR = {"ServiceMonitor", "PrometheusRule"}
PROFILES = {
    "default": ({},),
    "all": (ALL,),
    "strimzi": (ALL, "values-strimzi.yaml"),
    "s3": (ALL, "values-s3.yaml"),
    "client-certificates": (ALL, "values-client-certificates.yaml"),
    "openshift": (ALL, "values-openshift.yaml"),
}
SCHEMA = functools.cache(kubernetes_validate.utils.schema_contents)
SECURITY = (CHECKOUT / "docs/explanation/security.md").read_text()
SECTIONS_OF_ALL = {"kafka", "target", "topics", "quota", "client", "metrics", "logging", "broker"}


@pytest.fixture
def everything():
    return rendered(ALL)


@pytest.fixture
def settings(tmp_path):
    """Return a function from objects and a service to the settings that it reads."""
    return lambda objects, name: read_settings(objects, name, tmp_path)


def test_the_linter_reports_nothing():
    done = helm("lint", "--strict", CHART, "--values", "-", given=yaml.safe_dump(ALL))
    assert (done.returncode, done.stdout.count("[WARNING]"), done.stdout.count("[ERROR]")) == (0, 0, 0), done.stdout


@pytest.mark.parametrize("version", [OLDEST, pytest.param(NEWEST, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("profile", PROFILES)
def test_kubernetes_defines_every_field(profile, version, monkeypatch):
    """Kubernetes' own schemas reject unknown fields; two megabytes are parsed once instead of for each object."""
    monkeypatch.setattr(kubernetes_validate.utils, "schema_contents", SCHEMA)
    for item in rendered(*PROFILES[profile]):
        if item["kind"] not in OF_THE_OPERATOR:
            kubernetes_validate.validate(item, version, strict=True)


def test_the_page_of_platforms_names_the_versions_whose_schemas_are_tried():
    page = (CHECKOUT / "docs/reference/platforms.md").read_text()
    assert sorted(set(re.findall(r"\b1\.3\d\b", page))) == [OLDEST, NEWEST]


def test_a_service_runs_only_if_it_is_enabled(everything):
    assert set(deployments(rendered({}))) == {"audit", "enforce"}
    assert set(deployments(everything)) == set(PROBED)
    assert deployments(rendered({"audit": {"enabled": False}})).keys() == {"enforce"}


def test_each_object_has_a_name_of_its_own(everything):
    """Helm applies the later one of two without a word."""
    names = [(item["kind"], item["metadata"]["name"]) for item in everything]
    assert len(set(names)) == len(names) > 30


def test_every_selector_finds_the_pods_that_it_is_for(everything):
    made = of_kind(everything, "Deployment")
    pods = {name: item["spec"]["template"]["metadata"]["labels"] for name, item in made.items()}
    found, expected = {}, {}
    for item in everything:
        spec = item.get("spec", {})
        selector = spec.get("podSelector", spec.get("selector", {}))
        labels = selector.get("matchLabels", selector)
        name = item["metadata"]["name"].removeprefix("mutation-quota")
        if labels and item["kind"] not in OF_THE_OPERATOR:
            found[item["kind"], name] = {pod for pod, own in pods.items() if labels.items() <= own.items()}
            expected[item["kind"], name] = {name} if name in pods else set(pods)
    assert {kind for kind, _ in found} == {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"}
    assert found == expected


def test_one_of_two_pods_at_a_time_may_be_evicted_and_no_other_service_is_held(everything):
    budgets = of_kind(everything, "PodDisruptionBudget")
    assert {name: item["spec"]["maxUnavailable"] for name, item in budgets.items()} == {"-enforce": 1, "-gateway": 1}
    assert deployments(everything)["gateway"]["spec"]["replicas"] == 2


@pytest.mark.parametrize("name", PROBED)
def test_a_service_runs_unprivileged_without_a_token_and_writes_only_to_its_volumes(name, everything):
    """It meets Kubernetes' restricted policy for pods, with an account of its own and a read-only root file system."""
    spec = pod(everything, name)
    account = of_kind(everything, "ServiceAccount")[f"-{name}"]
    assert spec["serviceAccountName"] == account["metadata"]["name"] == f"mutation-quota-{name}"
    assert account["automountServiceAccountToken"] is spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["runAsGroup"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(everything, name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = container(everything, name)["volumeMounts"]
    writable = {mount["mountPath"] for mount in mounts if not mount.get("readOnly")}
    assert writable == ({"/tmp", "/data"} if name in {"enforce", "audit"} else {"/tmp"})  # noqa: S108
    assert {"requests", "limits"} == container(everything, name)["resources"].keys()


@pytest.mark.parametrize("name", PROBED)
def test_a_service_gets_its_own_secret_as_a_file_and_no_secret_in_its_environment(name, everything, settings):
    secrets = secrets_of(everything, name)
    assert secrets.pop("kafka") == f"mutation-quota-{name}"
    assert secrets.pop("brokers-ca") == "mutation-quota-brokers-ca"
    assert all(secret.startswith(f"mutation-quota-{name}-") for secret in secrets.values())
    kafka = settings(everything, name).kafka
    assert kafka.sasl_username == name
    assert f"\nacl {name} " in SECURITY  # the page has its ACLs
    assert kafka.security.sasl_password == "secret"  # noqa: S105 of the test's file
    environment = [variable["name"] for variable in container(everything, name).get("env", [])]
    assert environment == (["MUTATION_QUOTA__OBSERVE__GROUP"] if name == "observe" else [])
    assert "envFrom" not in container(everything, name)
    assert of_kind(everything, "Secret") == {}


@pytest.mark.parametrize("name", PROBED)
def test_a_service_reads_the_mounted_settings_and_is_probed_where_it_answers(name, everything, settings):
    words, spec, loaded = COMMANDS.get(name, [name]), container(everything, name), settings(everything, name)
    (file,) = of_kind(everything, "ConfigMap")[f"-{name}"]["data"]
    assert (spec["args"][: len(words)], spec["args"][-2:]) == (words, ["--settings", f"/etc/mutation-quota/{file}"])
    assert loaded.kafka.bootstrap_servers == "kafka:9093"
    assert (loaded.topics.create, loaded.logging.format) == (False, "json")
    (port,) = [port["containerPort"] for port in spec["ports"] if port["name"] == "http"]
    assert port == (loaded.dashboard.port if name == "dashboard" else loaded.metrics.port)
    assert loaded.metrics.address == "0.0.0.0"  # noqa: S104 every client that reaches the pod
    for kind, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
        assert spec[f"{kind}Probe"]["httpGet"] == {"path": path, "port": "http"}


def test_a_service_gets_all_sections_that_it_reads():
    """As the page on settings tells who reads a section."""
    text = (CHART / "templates/_helpers.tpl").read_text()
    block = re.search(r'define "mutation-quota\.readers" -}}\n(.*?)\{\{- end', text, re.DOTALL)[1]
    readers = yaml.safe_load(block)
    assert readers.keys() == READ_BY.keys() - SECTIONS_OF_ALL
    for section, services in readers.items():
        assert set(services) == set(re.findall(r"`(\w+)`", READ_BY[section])) & set(PROBED), section


def test_values_of_all_types_are_what_the_programs_read(settings):
    given = {
        "kafka": {"timeout_seconds": 2.5, "java": {"client.rack": 'zone "a"\\b'}},
        "enforce": {"state_partitions": 1_000},
        "topics": {"retired_users": ["bob", "Zoë <x>"]},
        "spark": {"conf": {"spark.ui.enabled": "true"}},
    }
    objects = rendered({"settings": given})
    loaded = settings(objects, "enforce")
    assert loaded.kafka.timeout_seconds == 2.5
    assert loaded.kafka.java["client.rack"].get_secret_value() == 'zone "a"\\b'
    assert loaded.topics.retired_users == ["bob", "Zoë <x>"]
    assert loaded.spark.conf == {"spark.ui.enabled": "true"}
    text = of_kind(objects, "ConfigMap")["-enforce"]["data"]["mutation-quota.toml"]
    assert "\nstate_partitions = 1000\n" in text
    assert "window_num" not in text


def test_a_cluster_without_security_needs_no_secret(settings):
    nothing = {"username": "", "secret": ""}
    kafka = {"bootstrap_servers": "kafka:9092", "security_protocol": "PLAINTEXT", "sasl_mechanism": None}
    values = {"settings": {"kafka": kafka}, "brokersCA": {"secret": ""}, "enforce": nothing, "audit": nothing}
    objects = rendered(values)
    assert not any("secret" in volume for volume in pod(objects, "enforce")["volumes"])
    assert settings(objects, "enforce").kafka.security_protocol == "PLAINTEXT"


def test_of_two_that_enforce_one_at_a_time_is_replaced_and_they_are_on_two_nodes(everything):
    spec = deployments(everything)["enforce"]["spec"]
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert (spec["replicas"], spec["strategy"]) == (2, update)
    (spread,) = pod(everything, "enforce")["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["maxSkew"]) == ("kubernetes.io/hostname", 1)
    single = rendered(merged(ALL, {"enforce": {"replicas": 1}}))
    assert of_kind(single, "PodDisruptionBudget").keys() == {"-gateway"}


@pytest.mark.parametrize("name", ["audit", "applier", "observe"])
def test_a_service_with_one_instance_is_stopped_before_the_next_one_starts(name, everything):
    spec = deployments(everything)[name]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_each_broker_has_a_port_of_the_gateways_service_for_its_listener(everything, settings):
    named = {port["name"]: port["containerPort"] for port in container(everything, "gateway")["ports"]}
    ports = of_kind(everything, "Service")["-gateway"]["spec"]["ports"]
    gateway = settings(everything, "gateway").gateway
    assert [port for port, _ in gateway.ports] == [19092, 19093, 19095]
    assert {port["port"]: named[port["targetPort"]] for port in ports} == {port: port for port, _ in gateway.ports}
    assert gateway.address == "0.0.0.0"  # noqa: S104 every client that reaches the pod
    assert gateway.advertised_host == "mutation-quota-gateway.kafka.svc"


def test_a_gateway_needs_listeners():
    done = helm("template", CHART, "--set", "gateway.enabled=true")
    assert done.returncode == 1
    assert "gateway.enabled requires settings.gateway.listeners" in done.stderr


@pytest.mark.parametrize("timeout", [{}, {"decision_timeout_seconds": 300}])
def test_the_gateway_is_not_killed_while_mutations_are_pending(timeout, settings):
    objects = rendered(merged(ALL, {"settings": {"gateway": timeout}}))
    _, waits = container(objects, "gateway")["lifecycle"]["preStop"]["exec"]["command"]
    grace = pod(objects, "gateway")["terminationGracePeriodSeconds"]
    assert grace > int(waits) + settings(objects, "gateway").gateway.decision_timeout_seconds + 20 + 5


@pytest.mark.parametrize("name", ["enforce", "audit"])
def test_a_job_is_not_killed_before_its_batch_and_its_jvm_have_ended(name, everything):
    grace = pod(everything, name)["terminationGracePeriodSeconds"]
    assert grace > queries._BATCH_SECONDS + session._END_SECONDS + 15  # noqa: SLF001 15 s for Spark to stop


def test_the_applier_is_not_killed_while_a_mutation_is_pending(everything, settings):
    grace = pod(everything, "applier")["terminationGracePeriodSeconds"]
    assert grace > settings(everything, "applier").applier.timeout_seconds + 15  # and its results are written


def test_each_log_has_an_observer_of_its_own(everything):
    observers = {name: item for name, item in of_kind(everything, "Deployment").items() if "observe" in name}
    assert observers.keys() == {"-observe-broker-0", "-observe-broker-1"}
    groups = [item["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] for item in observers.values()]
    assert groups == ["observe-broker-0", "observe-broker-1"]
    (logs,) = [mount for mount in container(everything, "observe")["volumeMounts"] if mount["name"] == "logs"]
    assert logs == {"name": "logs", "mountPath": "/var/log/kafka", "readOnly": True}
    assert container(everything, "observe")["args"][2] == "/var/log/kafka/kafka-request.log"


def ports_of(rule):
    return [port["port"] for port in rule["ports"]]


def test_a_pod_is_reached_only_at_its_ports_and_reaches_only_kafka_and_dns(everything):
    policies = {name: policy["spec"] for name, policy in of_kind(everything, "NetworkPolicy").items()}
    assert policies.keys() == {"", "-gateway", "-dashboard"}
    (prometheus,) = policies[""]["ingress"]
    assert ports_of(prometheus) == [9404]
    (egress,) = policies[""]["egress"]
    assert egress["ports"][:4] == [
        {"port": 53, "protocol": "UDP"},
        {"port": 53, "protocol": "TCP"},
        {"port": 5353, "protocol": "UDP"},  # of the pods behind OpenShift's Service for DNS
        {"port": 5353, "protocol": "TCP"},
    ]
    assert ports_of(egress)[4:] == [9092, 9093]  # of the gateway's brokers, and of kafka.bootstrap_servers
    for name in ("gateway", "dashboard"):
        (rule,) = policies[f"-{name}"]["ingress"]
        opened = {port["containerPort"] for port in container(everything, name)["ports"]}
        assert ports_of(rule) == sorted(opened - ({9404} if name == "gateway" else set()))
    assert policies["-gateway"]["ingress"][0]["from"] == []  # everyone
    target = {"settings": {"kafka": {"target_servers": "other-1:9192, other-2:9192"}}}
    (egress,) = of_kind(rendered(target), "NetworkPolicy")[""]["spec"]["egress"]
    assert ports_of(egress)[4:] == [9093, 9192]


def test_prometheus_finds_the_metrics_and_has_the_alerts_of_the_file(everything):
    service, monitor = of_kind(everything, "Service")["-metrics"], of_kind(everything, "ServiceMonitor")[""]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (port,), (endpoint,) = service["spec"]["ports"], monitor["spec"]["endpoints"]
    assert (port["name"], port["targetPort"]) == (endpoint["port"], 9404)
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "mutation-quota"
    assert of_kind(everything, "PrometheusRule")[""]["spec"] == yaml.safe_load(RULES_FILE.read_text())


def test_strimzis_secrets_are_those_of_the_cluster_and_of_its_users(settings):
    objects = rendered(*PROFILES["strimzi"])
    for name in PROBED:
        secrets = secrets_of(objects, name)
        loaded = settings(objects, name)
        assert loaded.kafka.sasl_username == secrets["kafka"] == f"mutation-quota-{name}"
        assert secrets["brokers-ca"] == "my-cluster-cluster-ca-cert"
        assert loaded.kafka.bootstrap_servers == "my-cluster-kafka-bootstrap:9093"
        assert loaded.kafka.sasl_mechanism == "SCRAM-SHA-512"
    assert settings(objects, "gateway").gateway.ports[0] == (
        19092,
        ("my-cluster-broker-0.my-cluster-kafka-brokers.kafka.svc", 9093),
    )


def test_a_root_in_s3_needs_no_volume_but_credentials_and_a_port(settings):
    objects = rendered(*PROFILES["s3"])
    assert of_kind(objects, "PersistentVolumeClaim") == {}
    for name in PROBED:
        jobs = name in {"enforce", "audit"}
        assert not any(volume["name"] == "data" for volume in pod(objects, name)["volumes"])
        reference = [{"secretRef": {"name": "mutation-quota-s3"}}]
        assert container(objects, name).get("envFrom", []) == (reference if jobs else [])
        if jobs:
            storage = settings(objects, name).storage
            assert (storage.root, storage.is_s3) == ("s3a://my-bucket/mutation-quota", True)
            assert storage.options["fs.s3a.endpoint.region"].get_secret_value() == "eu-central-1"
    assert 443 in ports_of(of_kind(objects, "NetworkPolicy")[""]["spec"]["egress"][0])


def test_a_volume_outlives_the_release_and_may_be_an_existing_one(everything):
    claim = of_kind(everything, "PersistentVolumeClaim")[""]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    existing = rendered({"storage": {"existingClaim": "mine"}})
    assert of_kind(existing, "PersistentVolumeClaim") == {}
    for objects, name in ((everything, "mutation-quota"), (existing, "mine")):
        (data,) = [volume for volume in pod(objects, "enforce")["volumes"] if volume["name"] == "data"]
        assert data["persistentVolumeClaim"]["claimName"] == name


def test_clients_with_certificates_are_presented_to_the_brokers(settings):
    objects = rendered(*PROFILES["client-certificates"])
    loaded = settings(objects, "gateway")
    assert loaded.gateway.ssl_client_auth == "required"
    assert loaded.gateway.ssl_ca_location.endswith("/clients-ca/ca.crt")
    assert loaded.gateway.ssl_issuer_key_location.endswith("/issuer/tls.key")
    assert loaded.target.security_protocol == "SSL"
    secrets = secrets_of(objects, "gateway")
    assert (secrets["issuer"], secrets["clients-ca"]) == ("mutation-quota-gateway-ca", "kafka-clients-ca")
    for name in {*PROBED} - {"gateway"}:
        assert "issuer" not in {volume["name"] for volume in pod(objects, name)["volumes"]}
    assert ports_of(of_kind(objects, "NetworkPolicy")[""]["spec"]["egress"][0])[4:] == [9093, 9094]


@pytest.mark.parametrize(
    ("changed", "restarted"),
    [
        ({"kafka": {"timeout_seconds": 9}}, {*PROBED}),
        ({"audit": {"upkeep_seconds": 60}}, {"audit", "enforce"}),
    ],
)
def test_a_changed_setting_restarts_the_services_that_read_it_and_no_others(changed, restarted, everything):
    """Nothing of a pod changes but a checksum of its settings."""
    before, after = deployments(everything), deployments(rendered(merged(ALL, {"settings": changed})))
    templates = {name: (before[name]["spec"]["template"], after[name]["spec"]["template"]) for name in PROBED}
    assert {name for name, (old, new) in templates.items() if old != new} == restarted
    assert all(old["spec"] == new["spec"] for old, new in templates.values())


def merged(values, changed):
    if not isinstance(changed, dict):
        return changed
    return values | {key: merged(values.get(key, {}), value) for key, value in changed.items()}


def test_a_service_may_have_values_of_its_own_in_place_of_those_of_all(everything):
    pools = {name: pod(everything, name)["nodeSelector"]["pool"] for name in PROBED}
    assert pools == dict.fromkeys(PROBED, "jobs") | {"observe": "small"}


@pytest.mark.parametrize("name", PROBED)
def test_a_pod_on_openshift_names_no_user_and_no_group(name):
    """Its constraint restricted-v2 refuses ids outside of the namespace's range, and sets ids of this range itself."""
    assert pod(rendered(*PROFILES["openshift"]), name)["securityContext"] == {
        "runAsNonRoot": True,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


OPTIONAL = (
    *("args", "env", "podAnnotations", "podLabels", "nodeSelector", "tolerations", "affinity", "priorityClassName"),
    *("serviceAccountAnnotations", "podSecurityContext"),
)
"""What a pod may have, and may also do without."""


def test_null_removes_a_value():
    """For one service or for all; and a section that is needed is named in the error."""
    nothing = dict.fromkeys(OPTIONAL)
    ports = {"networkPolicy": {"egressPorts": None}, "brokersCA": {"secret": None}}
    for values in ({"defaults": nothing}, dict.fromkeys(("enforce", "audit"), nothing)):
        objects = rendered(values | ports)
        assert "securityContext" not in pod(objects, "enforce")
        assert "brokers-ca" not in secrets_of(objects, "enforce")
        for item in objects:
            kubernetes_validate.validate(item, OLDEST, strict=True)
    done = helm("template", CHART, "--set", "storage=null", "--set", "gateway.service=null")
    assert done.returncode == 1
    assert "at '': missing property 'storage'" in done.stderr
    assert "at '/gateway': missing property 'service'" in done.stderr


def test_a_service_may_have_more_options_such_as_a_debug_log():
    objects = rendered({"defaults": {"args": ["--set", "topics.create=true"]}, "audit": {"args": ["-v"]}})
    file = "/etc/mutation-quota/mutation-quota.toml"
    assert container(objects, "audit")["args"] == ["audit", "--settings", file, "-v"]
    assert container(objects, "enforce")["args"][2:] == [file, "--set", "topics.create=true"]


def test_the_schema_refuses_wrong_types_unknown_keys_and_secrets():
    """All that is wrong is named at once."""
    wrong = {
        "gatway": {},
        "gateway": {"replicas": "two"},
        "observe": {"enabled": True},
        "settings": {
            "kafka": {"timeout_second": 1, "sasl_password": "hunter2"},
            "storage": {"options": {"fs.s3a.secret.key": "hunter2"}},
        },
    }
    done = helm("template", CHART, "--values", "-", given=yaml.safe_dump(wrong))
    assert done.returncode == 1
    said = done.stderr
    assert "additional properties 'gatway' not allowed" in said
    assert "at '/gateway/replicas': got string, want integer" in said
    assert "at '/observe/logs': minItems: got 0, want 1" in said
    assert "at '/settings/kafka': additional properties 'timeout_second' not allowed" in said
    assert "at '/settings/kafka/sasl_password': 'hunter2' does not match pattern '^(file:.*)?$'" in said
    assert "fs.s3a.secret.key" in said


def test_the_packaged_chart_is_the_same_chart_and_has_the_same_bytes_each_time(tmp_path, everything):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        packed = write_chart(folder, CHART, quota.__version__, 1_700_000_000)
    assert packed.name == f"mutation-quota-{quota.__version__}.tgz"
    assert packed.read_bytes() == (first / packed.name).read_bytes()
    assert rendered(ALL, chart=packed) == everything
    with pytest.raises(SystemExit, match=r"version 0\.1\.0 is not 9\.9\.9, that of the project"):
        write_chart(tmp_path, CHART, "9.9.9", 0)
