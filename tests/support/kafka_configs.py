"""Kafka's own kafka-configs.sh, with which operators set and describe quotas of a cluster."""

import re
import subprocess

from tests.support.checkout import CHECKOUT
from tests.support.wire_client import WireClient

_DESCRIBE_CLIENT_QUOTAS, _ALTER_CLIENT_QUOTAS = 48, 49
_JARS = CHECKOUT / ".jars" / "broker"
_LINE = re.compile(r"^Quota configs for (.*?) are (.*)$", re.MULTILINE)


def kafka_configs(address, *args):
    """Run kafka-configs.sh, and return its output."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp", f"{_JARS}/*"]
    command += ["kafka.admin.ConfigCommand", "--bootstrap-server", address]
    done = subprocess.run([*command, *args], capture_output=True, text=True, check=False, env=_utf8())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def set_by_kafka(address, entity, **configs):
    """Set quotas of an entity, given as in `as_arguments`; those that are None are removed."""
    added = [f"{name}={value}" for name, value in configs.items() if value is not None]
    deleted = [name for name, value in configs.items() if value is None]
    changes = ["--add-config", ",".join(added)] if added else []
    changes += ["--delete-config", ",".join(deleted)] if deleted else []
    kafka_configs(address, "--alter", *as_arguments(entity), *changes)


def shown_by_kafka(address, *types):
    """Return the quotas that are set for entities of these types: the configs by Kafka's text of the entity."""
    args = [part for each in types for part in ("--entity-type", each)]
    found = _LINE.findall(kafka_configs(address, "--describe", *args))
    return {entity: dict(each.split("=") for each in configs.split(", ")) for entity, configs in found}


def remove_all_quotas(address, protocol):
    """Remove all quotas of all clients."""
    host, _, port = address.partition(":")
    with WireClient((host, int(port)), protocol, "tests") as client:
        entries = client.call(_DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False})["entries"]
        changes = [
            {
                "entity": each["entity"],
                "ops": [{"key": value["key"], "value": 0.0, "remove": True} for value in each["values"]],
            }
            for each in entries
        ]
        answer = client.call(_ALTER_CLIENT_QUOTAS, 1, {"entries": changes, "validateOnly": False})
        assert all(each["errorCode"] == 0 for each in answer["entries"])


def as_arguments(entity):
    """Return the options for an entity such as {"users": "alice", "clients": None}; None is the default."""
    args = []
    for kind, name in entity.items():
        args += ["--entity-type", kind, *(["--entity-default"] if name is None else ["--entity-name", name])]
    return args


def _utf8():
    return {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
