"""Quotas of a cluster: by Kafka's own kafka-configs.sh, as operators set and describe them, and by requests."""

import re
import subprocess

from tests.support.checkout import CHECKOUT
from tests.support.wire_client import WireClient

_DESCRIBE_CLIENT_QUOTAS, _ALTER_CLIENT_QUOTAS = 48, 49
_TYPES = {"users": ("user", "user-principal"), "clients": ("client-id", "client-id"), "ips": ("ip", "ip")}
"""The name of a type in requests and in the text of an entity, by that of kafka-configs.sh."""
_JARS = CHECKOUT / ".jars" / "broker"
_UTF_8 = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
_LINE = re.compile(r"^Quota configs for (.*?) are (.*)$", re.MULTILINE)


def kafka_configs(address, *args):
    """Run kafka-configs.sh, and return its output."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp", f"{_JARS}/*"]
    command += ["org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", address]
    done = subprocess.run([*command, *args], capture_output=True, text=True, check=False, env=_UTF_8)
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
    args = [part for kind in types for part in ("--entity-type", kind)]
    shown = _LINE.findall(kafka_configs(address, "--describe", *args))
    return {entity: dict(config.split("=") for config in configs.split(", ")) for entity, configs in shown}


def set_quotas(address, protocol, *entities, **configs):
    """Set quotas of entities by a request, without a JVM; as `set_by_kafka` otherwise."""
    changes = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in configs.items()]
    named = ([{"entityType": _TYPES[kind][0], "entityName": entity[kind]} for kind in entity] for entity in entities)
    _alter(address, protocol, [{"entity": entity, "ops": changes} for entity in named])


def client_quotas(address, protocol, *types):
    """Return what `shown_by_kafka` does, by a request, and values as numbers; all quotas if no types are given."""
    wanted = {_TYPES[kind][0] for kind in types}
    shown = {}
    for entry in _entries(address, protocol):
        names = {part["entityType"]: part["entityName"] for part in entry["entity"]}
        if wanted in (names.keys(), set()):
            parts = [
                f"{text} '{names[kind]}'" if names[kind] is not None else f"the default {text}"
                for kind, text in _TYPES.values()
                if kind in names
            ]
            shown[", ".join(parts)] = {value["key"]: value["value"] for value in entry["values"]}
    return shown


def remove_all_quotas(address, protocol):
    """Remove all quotas of all clients."""
    changes = [
        {
            "entity": entry["entity"],
            "ops": [{"key": value["key"], "value": 0.0, "remove": True} for value in entry["values"]],
        }
        for entry in _entries(address, protocol)
    ]
    _alter(address, protocol, changes)


def _entries(address, protocol):
    with _client(address, protocol) as client:
        return client.call(_DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False})["entries"]


def _alter(address, protocol, entries):
    with _client(address, protocol) as client:
        answer = client.call(_ALTER_CLIENT_QUOTAS, 1, {"entries": entries, "validateOnly": False})
    assert all(entry["errorCode"] == 0 for entry in answer["entries"])


def _client(address, protocol):
    host, _, port = address.partition(":")
    return WireClient((host, int(port)), protocol, "tests")


def as_arguments(entity):
    """Return the options for an entity such as {"users": "alice", "clients": None}; None is the default."""
    args = []
    for kind, name in entity.items():
        args += ["--entity-type", kind, *(["--entity-default"] if name is None else ["--entity-name", name])]
    return args
