"""Quotas as kafka-configs.sh writes them: `controller_mutation_rate=5,max_debt_ms=60000`."""

import math
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from msgspec import UNSET

from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota, read_number
from quota.records.quota_log import QUOTA_CONFIGS, RATE_CONFIG, to_configs
from quota.text import config_value, format_configs

_OTHER_SPELLING = "controller_mutations_rate"
"""A spelling of the rate that KIP-599 uses too."""

_MAX_MS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The change of a quota that `--add-config` and `--delete-config` request."""

    added: Mapping[str, Any]
    deleted: frozenset[str]

    @classmethod
    def parse(cls, add: str | None, delete: str | None) -> Self:
        """Parse the two options.

        Raises:
            BadInput: a config or its value is invalid, or the options contradict each other.
        """
        change = cls(_parse_added(add), _parse_deleted(delete))
        if not change.added and not change.deleted:
            raise BadInput(f"give --add-config {RATE_CONFIG}=X, or --delete-config {RATE_CONFIG}")
        if twice := change.added.keys() & change.deleted:
            raise BadInput(f"{min(twice)} is both added and deleted")
        if RATE_CONFIG in change.deleted and change.added:
            raise BadInput(f"{', '.join(change.added)} without {RATE_CONFIG}: a quota is a rate with options")
        return change

    @property
    def names(self) -> list[str]:
        """The names of the configs that change."""
        return sorted(self.added.keys() | self.deleted)

    def applied_to(self, quota: Quota | None) -> Quota | None:
        """Return the quota after the change; None for no quota, before or after.

        Raises:
            BadInput: a config to delete is not set, or there is no rate that the options could belong to.
        """
        unset = sorted(
            each for each in self.deleted if quota is None or getattr(quota, QUOTA_CONFIGS[each]) in (None, False)
        )
        if unset:
            raise BadInput(f"{', '.join(unset)} is not set, and cannot be deleted")
        if RATE_CONFIG in self.deleted:
            return None
        if quota is None and RATE_CONFIG not in self.added:
            options = ", ".join(self.added)
            raise BadInput(f"there is no quota that {options} could belong to; add {RATE_CONFIG}=X")
        changes: dict[str, Any] = {QUOTA_CONFIGS[name]: _DEFAULT[QUOTA_CONFIGS[name]] for name in self.deleted}
        changes |= {QUOTA_CONFIGS[name]: value for name, value in self.added.items()}
        return Quota(**changes) if quota is None else replace(quota, **changes)


def format_quota(quota: Quota | None) -> str:
    """Format a quota as `--add-config` takes it."""
    return format_configs(None if quota is None else to_configs(quota))


def kafka_configs_command(entity: QuotaEntity, quota: Quota, bootstrap_server: str) -> str:
    """Return the kafka-configs.sh command that sets the quota on a broker, which has rates only and enforces them."""
    parts = ["kafka-configs.sh", "--bootstrap-server", bootstrap_server, "--alter"]
    for kind, name in (("users", entity.user), ("clients", entity.client_id)):
        if name is not UNSET:
            parts += ["--entity-type", kind]
            parts += ["--entity-default"] if name is None else ["--entity-name", str(name)]
    parts += ["--add-config", f"{RATE_CONFIG}={config_value(quota.rate)}"]
    if quota.shadow:
        commented = shlex.join(parts).replace("\n", "\n# ")
        return f"# in shadow, which no broker has: {commented}"
    more = format_quota(quota).partition(",")[2]
    return shlex.join(parts) + (f"  # a broker has no {more}" if more else "")


def _parse_added(text: str | None) -> dict[str, Any]:
    configs: dict[str, Any] = {}
    for each in (text or "").split(",") if text is not None else ():
        spelling, _, value = each.strip().partition("=")
        name = _checked_name(spelling)
        if name in configs:
            raise BadInput(f"{name} is given twice")
        configs[name] = _PARSERS[name](name, value)
    return configs


def _parse_deleted(text: str | None) -> frozenset[str]:
    return frozenset(_checked_name(each.strip()) for each in text.split(",")) if text is not None else frozenset()


def _checked_name(name: str) -> str:
    if name == _OTHER_SPELLING:
        print(f"mutation-quota: {_OTHER_SPELLING} is taken for {RATE_CONFIG}", file=sys.stderr)
        return RATE_CONFIG
    if name not in QUOTA_CONFIGS:
        raise BadInput(f"unknown quota {name!r}: this program keeps {', '.join(QUOTA_CONFIGS)}")
    return name


def _parse_positive(name: str, value: str) -> float:
    number = read_number(value)
    if number is None or not (math.isfinite(number) and number > 0):
        raise BadInput(f"{name}: expected a finite number above 0, got {value!r}")
    return number


def _parse_milliseconds(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and 0 < int(value) <= _MAX_MS):
        raise BadInput(f"{name}: expected milliseconds from 1 to {_MAX_MS}, got {value!r}")
    return int(value)


def _parse_switch(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise BadInput(f"{name}: expected true or false, got {value!r}")
    return value == "true"


_DEFAULT = {field.name: field.default for field in fields(Quota)}
_PARSERS: dict[str, Callable[[str, str], Any]] = {
    RATE_CONFIG: _parse_positive,
    "controller_mutation_burst": _parse_positive,
    "max_debt_ms": _parse_milliseconds,
    "shadow": _parse_switch,
}
