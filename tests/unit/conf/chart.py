"""The Helm chart as tests read it: its objects for some values, and the settings that a service gets."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import yaml

from quota.settings import load_settings
from tests.support.broker import CERTIFICATE_PEM
from tests.support.checkout import CHECKOUT
from tests.support.needs import need

CHART = CHECKOUT / "conf" / "helm"

PROBED = ("applier", "audit", "dashboard", "enforce", "gateway", "observe", "push")
"""The programs that answer probes."""

COMMANDS = {"observe": ["observe", "follow"], "push": ["quotas", "push", "--follow"]}
"""The commands that start them, where these are not their names."""

LOG = {"name": "broker-0", "file": "kafka-request.log", "volume": {"persistentVolumeClaim": {"claimName": "logs-0"}}}
ALL = {
    **{name: {"enabled": True} for name in (*PROBED, "metrics", "alerts")},
    "observe": {"enabled": True, "logs": [LOG, LOG | {"name": "broker-1"}], "nodeSelector": {"pool": "small"}},
    "defaults": {"nodeSelector": {"pool": "jobs"}, "podLabels": {"team": "kafka"}, "priorityClassName": "high"},
    "image": {"pullSecrets": ["registry"]},
    "settings": {
        "gateway": {"listeners": ["19092=kafka-0.kafka:9092", "19093=kafka-1.kafka:9092", "19095=kafka-2.kafka:9092"]},
        "dashboard": {"hosts": ["quota.example.org"]},
    },
}
"""Values with which the chart has all that it can have."""

_KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
_SECRETS = {
    "kafka": {"password": "secret\n"},
    "brokers-ca": {"ca.crt": CERTIFICATE_PEM},
    "tls": {"tls.crt": CERTIFICATE_PEM, "tls.key": _KEY},
    "clients-ca": {"ca.crt": CERTIFICATE_PEM},
    "issuer": {"tls.crt": CERTIFICATE_PEM, "tls.key": _KEY},
    "token": {"token": "correct horse battery"},
}
"""What secrets hold, by the names of their volumes."""


def helm(*arguments, given=""):
    """Run Helm with a text on its standard input: an installed one, or the one that `make helm` has built."""
    version = re.search(r"^HELM_VERSION := (\S+)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)[1]
    built = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mutation-quota" / f"helm-{version}"
    program = shutil.which("helm") or shutil.which("helm", path=built)
    need(program, "helm is missing: install it, or `make helm` builds it with Go (two minutes, once)")
    return subprocess.run([program, *arguments], input=given, text=True, capture_output=True, check=False)


def rendered(values, *files, chart=CHART):
    """Return the objects of the chart for values, and for files of values that override them."""
    return _rendered(yaml.safe_dump(values), files, chart)


@functools.cache
def _rendered(values, files, chart):
    options = [option for file in files for option in ("--values", chart / file)]
    done = helm("template", "mutation-quota", chart, "--namespace", "kafka", "--values", "-", *options, given=values)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(objects, kind):
    """Return the objects of a kind by the rest of their names, which begin with the name of the release."""
    return {item["metadata"]["name"].removeprefix("mutation-quota"): item for item in objects if item["kind"] == kind}


def deployments(objects):
    """Return the Deployments by the names of their services; of the observers of several logs, the last one."""
    names = {name: "observe" if name.startswith("-observe-") else name[1:] for name in of_kind(objects, "Deployment")}
    return {names[name]: item for name, item in of_kind(objects, "Deployment").items()}


def pod(objects, name):
    """Return the specification of the pods of a service."""
    return deployments(objects)[name]["spec"]["template"]["spec"]


def container(objects, name):
    (spec,) = pod(objects, name)["containers"]
    return spec


def secrets_of(objects, name):
    """Return the names of the secrets that the pods of a service mount, by volume."""
    return {
        volume["name"]: volume["secret"]["secretName"] for volume in pod(objects, name)["volumes"] if "secret" in volume
    }


def image_environment():
    """Return what the image's Dockerfile sets in the environment."""
    text = (CHECKOUT / "conf/containers/Dockerfile").read_text()
    return dict(re.findall(r"(MUTATION_QUOTA__\w+)=(\S+)", text))


def read_settings(objects, name, folder):
    """Return what a service reads of its ConfigMap and environment, with its secrets mounted in a folder."""
    mounts = {mount["name"]: mount["mountPath"] for mount in container(objects, name)["volumeMounts"]}
    for volume in pod(objects, name)["volumes"]:
        if "secret" in volume:
            mounted = folder / mounts[volume["name"]].removeprefix("/run/secrets/")
            mounted.mkdir(exist_ok=True)
            for key, content in _SECRETS[volume["name"]].items():
                (mounted / key).write_text(content)
    (volume,) = [volume for volume in pod(objects, name)["volumes"] if volume["name"] == "settings"]
    (data,) = [
        item["data"]
        for item in objects
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] == volume["configMap"]["name"]
    ]
    file = folder / "mutation-quota.toml"
    file.write_text(data["mutation-quota.toml"].replace("/run/secrets", str(folder)))
    given = {variable["name"]: variable["value"] for variable in container(objects, name).get("env", [])}
    return load_settings(file=file, environment=image_environment() | given)
