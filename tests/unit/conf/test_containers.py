"""The image, and the Compose file: valid by their schema and linter, with settings that the programs take."""

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from quota.settings import load_settings
from tests.support.checkout import CHECKOUT
from tests.unit.conf.chart import COMMANDS, PROBED, image_environment

FOLDER = CHECKOUT / "conf/containers"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SCHEMA = json.loads(files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text())
OWN = tuple(name for name, service in COMPOSE["services"].items() if service["image"].startswith("mutation-quota:"))


@pytest.fixture
def settings(tmp_path):
    """Return a function from a service to the settings that it reads."""
    (tmp_path / "token").write_text("correct horse battery")

    def read(name):
        given = COMPOSE["services"][name]["environment"].items()
        given = {key: value.replace("/run/secrets/dashboard-token", str(tmp_path / "token")) for key, value in given}
        return load_settings(environment=image_environment() | given, with_default_file=False)

    return read


def test_the_compose_specification_defines_every_field():
    Draft202012Validator(SCHEMA).validate(COMPOSE)


def test_every_service_is_included_except_the_one_that_needs_the_brokers_files():
    assert set(OWN) == {*PROBED} - {"observe"}
    optional = {name for name in OWN if "profiles" in COMPOSE["services"][name]}
    assert optional == {"applier", "push"}


def test_a_service_that_ends_is_started_again():
    assert {COMPOSE["services"][name]["restart"] for name in OWN} == {"unless-stopped"}


@pytest.mark.parametrize("name", OWN)
def test_the_programs_take_their_settings(name, settings):
    service, loaded = COMPOSE["services"][name], settings(name)
    words = COMMANDS.get(name, [name])
    assert service["command"][: len(words)] == words
    assert loaded.kafka.bootstrap_servers == "broker:9092"
    assert loaded.storage.root == "/data"
    assert (loaded.metrics.port, loaded.logging.format) == (9404, "json")
    port = loaded.dashboard.port if name == "dashboard" else loaded.metrics.port
    assert f"http://127.0.0.1:{port}/healthz" in service["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", OWN)
def test_a_service_writes_only_to_its_volumes_and_has_no_privileges(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service.get("volumes", []) == (["data:/data"] if name in {"enforce", "audit"} else [])


def test_what_the_programs_listen_on_is_published_to_this_machine_alone(settings):
    published = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
    ports = {"gateway": settings("gateway").gateway.first_port, "dashboard": settings("dashboard").dashboard.port}
    ports |= {"prometheus": 9090, "grafana": 3000}
    assert published == {name: [f"127.0.0.1:{port}:{port}"] for name, port in ports.items()}
    assert settings("gateway").gateway.advertised_host == "127.0.0.1"


DOCKERFILE = CHECKOUT / "conf/containers/Dockerfile"
HADOLINT = Path(sys.executable).parent / "hadolint"


def test_the_linter_reports_nothing():
    command = [HADOLINT, "--failure-threshold", "style", DOCKERFILE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_runs_as_a_user_without_a_name_under_an_init_that_forwards_signals():
    lines = DOCKERFILE.read_text().splitlines()
    assert {"USER 10001:10001", 'ENTRYPOINT ["tini", "--", "mutation-quota"]'} <= set(lines)


def test_a_user_of_another_id_and_the_group_0_has_a_home_and_may_write_data():
    text = DOCKERFILE.read_text()
    assert re.search(r"^ENV .*(\\\n.*)*HOME=/tmp", text, re.MULTILINE)
    assert re.search(r"install --directory .*--group=0 --mode=0775 /data$", text, re.MULTILINE)
