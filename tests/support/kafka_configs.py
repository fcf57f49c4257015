"""Quotas of a cluster: by Kafka's own kafka-configs.sh, as operators set and describe them, and by requests."""

import subprocess

from tests.support.checkout import CHECKOUT
from tests.support.waiting import until
from tests.support.wire_client import WireClient

_DESCRIBE_CLIENT_QUOTAS, _ALTER_CLIENT_QUOTAS = 48, 49
_TYPES = {"users": ("user", "user-principal"), "clients": ("client-id", "client-id"), "ips": ("ip", "ip")}
"""The name of a type in requests and in the text of an entity, by that of kafka-configs.sh."""
_JARS = CHECKOUT / ".jars" / "broker"
_UTF_8 = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}


def kafka_configs(address, *args):
    """Run kafka-configs.sh, and return its output."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp", f"{_JARS}/*"]
    command += ["org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", address]
    done = subprocess.run([*command, *args], capture_output=True, text=True, check=False, env=_UTF_8)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def set_quotas(address, protocol, *entities, **configs):
    """Set quotas of entities such as {"users": "alice", "clients": None}, where None is the default.

    Quotas that are None are removed.
    """
    changes = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in configs.items()]
    named = ([{"entityType": _TYPES[kind][0], "entityName": entity[kind]} for kind in entity] for entity in entities)
    _alter(address, protocol, [{"entity": entity, "ops": changes} for entity in named])


def client_quotas(address, protocol):
    """Return all quotas that are set: the configs by Kafka's text of the entity."""
    shown = {}
    for entry in _entries(address, protocol):
        names = {part["entityType"]: part["entityName"] for part in entry["entity"]}
        parts = [
            f"{text} '{names[kind]}'" if names[kind] is not None else f"the default {text}"
            for kind, text in _TYPES.values()
            if kind in names
        ]
        shown[", ".join(parts)] = {value["key"]: value["value"] for value in entry["values"]}
    return shown


def remove_all_quotas(address, protocol):
    """Remove all quotas of all clients, and wait until the broker shows none."""
    changes = [
        {
            "entity": entry["entity"],
            "ops": [{"key": value["key"], "value": 0.0, "remove": True} for value in entry["values"]],
        }
        for entry in _entries(address, protocol)
    ]
    _alter(address, protocol, changes)
    until(lambda: not _entries(address, protocol))


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
