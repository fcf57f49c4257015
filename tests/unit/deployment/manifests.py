"""The manifests of Kubernetes as tests read them: documents, pods, and the settings that a program gets there."""

import re

import yaml

from quota.settings import load_settings
from tests.support.broker import CERTIFICATE_PEM
from tests.support.checkout import CHECKOUT

FOLDER = CHECKOUT / "conf" / "kubernetes"


PROBED = ("applier", "audit", "dashboard", "enforce", "gateway", "observe", "push")
"""The programs that answer probes."""

COMMANDS = {"observe": ["observe", "follow"], "push": ["quotas", "push", "--follow"]}
"""The commands that start them, where these are not their names."""

_FILES = {
    "kafka/password": "secret",
    "kafka/ca.pem": CERTIFICATE_PEM,
    "tls/tls.crt": CERTIFICATE_PEM,
    "tls/tls.key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    "dashboard/token": "correct horse battery",
}
"""What secrets hold, by their places below /run/secrets."""


def documents(name):
    """Return the documents of a manifest."""
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()))


def of_kind(name, kind):
    """Return the only document of a kind in a manifest."""
    (found,) = [each for each in documents(name) if each["kind"] == kind]
    return found


def pod_template(name):
    """Return the template of a service's pods; that of a CronJob is its job's."""
    for each in documents(name):
        match each["kind"]:
            case "Deployment":
                return each["spec"]["template"]
            case "CronJob":
                return each["spec"]["jobTemplate"]["spec"]["template"]
    raise AssertionError(name)


def container(name):
    (found,) = pod_template(name)["spec"]["containers"]
    return found


def image_environment():
    """Return what the image's Dockerfile sets in the environment."""
    text = (CHECKOUT / "conf/containers/Dockerfile").read_text()
    return dict(re.findall(r"(MUTATION_QUOTA__\w+)=(\S+)", text))


def read_settings(manifest, folder, environment):
    """Return what a program reads of a ConfigMap and an environment, with its secrets mounted in a folder."""
    text = of_kind(manifest, "ConfigMap")["data"]["mutation-quota.toml"]
    for name, content in _FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    file = folder / "mutation-quota.toml"
    file.write_text(text.replace("/run/secrets", str(folder)))
    given = {name: value.replace("/run/secrets", str(folder)) for name, value in environment.items()}
    return load_settings(file=file, environment=image_environment() | given)


def environment_of(name):
    """Return the environment that a manifest gives its container."""
    return {each["name"]: each["value"] for each in container(name).get("env", [])}
