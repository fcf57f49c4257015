"""Quotas in the notation of kafka-configs.sh: `controller_mutation_rate=5,max_debt_ms=60000`."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import msgspec
from msgspec import UNSET
from msgspec.structs import fields, replace

from quota.errors import BadInput, NotFound
from quota.records.entity import QuotaEntity
from quota.records.quota_log import BURST_CONFIG, QUOTA_CONFIGS, RATE_CONFIG, Quota
from quota.settings.sections import KafkaSettings
from quota.text import config_value

_OTHER_SPELLING = "controller_mutations_rate"
"""A spelling of the rate that KIP-599 uses too."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The quota change that `--add-config` and `--delete-config` request."""

    added: Mapping[str, Any]
    deleted: frozenset[str]

    @classmethod
    def parse(cls, added: list[str], deleted: list[str]) -> Self:
        """Parse the two options."""
        change = cls(_parse_added(added), frozenset(map(_checked_name, deleted)))
        if not change.added and not change.deleted:
            raise BadInput(f"give --add-config {RATE_CONFIG}=X, or --delete-config {RATE_CONFIG}")
        if twice := change.added.keys() & change.deleted:
            raise BadInput(f"{min(twice)} is both added and deleted")
        if RATE_CONFIG in change.deleted and change.added:
            raise BadInput(f"{', '.join(change.added)} cannot be set without {RATE_CONFIG}")
        return change

    @property
    def names(self) -> list[str]:
        """The names of the configs that change."""
        return sorted(self.added.keys() | self.deleted)

    def applied_to(self, quota: Quota | None) -> Quota | None:
        """Return the quota after the change; None, before or after, if there is none."""
        unset = sorted(
            name for name in self.deleted if quota is None or getattr(quota, QUOTA_CONFIGS[name]) in (None, False)
        )
        if unset:
            raise NotFound(f"{', '.join(unset)} is not set and cannot be deleted; see quotas describe")
        if RATE_CONFIG in self.deleted:
            return None
        if quota is None and RATE_CONFIG not in self.added:
            options = ", ".join(self.added)
            raise BadInput(f"{options} needs a quota, and this entity has none: add {RATE_CONFIG}=X")
        changes: dict[str, Any] = {QUOTA_CONFIGS[name]: _DEFAULT[QUOTA_CONFIGS[name]] for name in self.deleted}
        changes |= {QUOTA_CONFIGS[name]: value for name, value in self.added.items()}
        return Quota(**changes) if quota is None else replace(quota, **changes)


def connection_options(kafka: KafkaSettings) -> list[str]:
    """Return the options of Kafka's own tools that connect to the cluster of the settings."""
    secured = [] if kafka.security_protocol == "PLAINTEXT" else ["--command-config", "client.properties"]
    return ["--bootstrap-server", kafka.bootstrap_servers, *secured]


def kafka_configs_command(entity: QuotaEntity, quota: Quota, kafka: KafkaSettings) -> str:
    """Return the kafka-configs.sh command that sets the quota on brokers, which support only rates."""
    parts = ["kafka-configs.sh", *connection_options(kafka), "--alter"]
    for kind, name in (("users", entity.user), ("clients", entity.client_id)):
        if name is not UNSET:
            parts += ["--entity-type", kind]
            parts += ["--entity-default"] if name is None else ["--entity-name", str(name)]
    parts += ["--add-config", f"{RATE_CONFIG}={config_value(quota.rate)}"]
    if quota.shadow:
        commented = shlex.join(parts).replace("\n", "\n# ")
        return f"# in shadow mode, which brokers do not have: {commented}"
    more = str(quota).partition(",")[2]
    return shlex.join(parts) + (f"  # brokers do not have {more}" if more else "")


def _parse_added(texts: list[str]) -> dict[str, Any]:
    configs: dict[str, Any] = {}
    for text in texts:
        spelling, _, value = text.partition("=")
        name = _checked_name(spelling)
        if name in configs:
            raise BadInput(f"{name} is given twice")
        configs[name] = _parse_value(name, value)
    return configs


def _checked_name(name: str) -> str:
    if name == _OTHER_SPELLING:
        print(f"mutation-quota: reading {_OTHER_SPELLING} as {RATE_CONFIG}", file=sys.stderr)
        return RATE_CONFIG
    if name not in QUOTA_CONFIGS:
        raise BadInput(f"unknown config {name!r}: expected one of {', '.join(QUOTA_CONFIGS)}")
    return name


def _parse_value(name: str, value: str) -> Any:  # noqa: ANN401 a number or a switch
    try:
        quota = msgspec.convert({RATE_CONFIG: 1, name: value}, Quota, strict=False)
    except msgspec.ValidationError:
        quota = None
    if quota is None or (parsed := quota.configs[name]) is None:
        raise BadInput(f"{name}: expected {_EXPECTED[name]}, got {value!r}")
    return parsed


_DEFAULT = {field.name: field.default for field in fields(Quota)}
_EXPECTED = {
    RATE_CONFIG: "a finite number above 0",
    BURST_CONFIG: "a finite number above 0",
    "max_debt_ms": f"milliseconds from 1 to {2**31 - 1}",
    "shadow": "true or false",
}
