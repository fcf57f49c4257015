"""A quota in kafka-configs.sh's way of writing it: `controller_mutation_rate=5,max_debt_ms=60000`."""

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
from quota.records.quota_log import FIELDS, RATE, configs_of
from quota.text import config_value, format_configs

_OTHER_SPELLING = "controller_mutations_rate"  # KIP-599's page has both
_MAX_MS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """What `--add-config` and `--delete-config` ask for, checked in itself."""

    added: Mapping[str, Any]
    deleted: frozenset[str]

    @classmethod
    def of(cls, add: str | None, delete: str | None) -> Self:
        """Read the two options.

        Raises:
            BadInput: they name what is no config, or what is no value of one.
        """
        change = cls(_added(add), _deleted(delete))
        if not change.added and not change.deleted:
            raise BadInput(f"give --add-config {RATE}=X, or --delete-config {RATE}")
        if twice := change.added.keys() & change.deleted:
            raise BadInput(f"{min(twice)} is both added and deleted")
        if RATE in change.deleted and change.added:
            raise BadInput(f"{', '.join(change.added)} without {RATE}: a quota is a rate with options")
        return change

    @property
    def names(self) -> list[str]:
        """What is changed."""
        return sorted(self.added.keys() | self.deleted)

    def on(self, quota: Quota | None) -> Quota | None:
        """What an entity has afterwards, from what it has; None where it has none any more.

        Raises:
            BadInput: it asks for options, and there is no rate they could go with.
        """
        unset = sorted(each for each in self.deleted if quota is None or getattr(quota, FIELDS[each]) in (None, False))
        if unset:
            raise BadInput(f"{', '.join(unset)} is not set, and cannot be deleted")
        if RATE in self.deleted:
            return None
        if quota is None and RATE not in self.added:
            options = ", ".join(self.added)
            raise BadInput(f"there is no quota that {options} could belong to; add {RATE}=X")
        changes: dict[str, Any] = {FIELDS[name]: _DEFAULT[FIELDS[name]] for name in self.deleted}
        changes |= {FIELDS[name]: value for name, value in self.added.items()}
        return Quota(**changes) if quota is None else replace(quota, **changes)


def format_quota(quota: Quota | None) -> str:
    """A quota as `--add-config` takes it."""
    return format_configs(None if quota is None else configs_of(quota))


def shell_line(entity: QuotaEntity, quota: Quota, bootstrap_server: str) -> str:
    """The kafka-configs.sh command that sets the same on a broker, which knows rates alone and enforces them."""
    parts = ["kafka-configs.sh", "--bootstrap-server", bootstrap_server, "--alter"]
    for kind, name in (("users", entity.user), ("clients", entity.client_id)):
        if name is not UNSET:
            parts += ["--entity-type", kind]
            parts += ["--entity-default"] if name is None else ["--entity-name", str(name)]
    parts += ["--add-config", f"{RATE}={config_value(quota.rate)}"]
    if quota.shadow:
        commented = shlex.join(parts).replace("\n", "\n# ")
        return f"# in shadow, which no broker has: {commented}"
    more = format_quota(quota).partition(",")[2]
    return shlex.join(parts) + (f"  # a broker has no {more}" if more else "")


def _added(text: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in (text or "").split(",") if text is not None else ():
        given, _, value = each.strip().partition("=")
        name = _known(given)
        if name in found:
            raise BadInput(f"{name} is given twice")
        found[name] = _READERS[name](name, value)
    return found


def _deleted(text: str | None) -> frozenset[str]:
    return frozenset(_known(each.strip()) for each in text.split(",")) if text is not None else frozenset()


def _known(name: str) -> str:
    if name == _OTHER_SPELLING:
        print(f"mutation-quota: {_OTHER_SPELLING} is taken for {RATE}", file=sys.stderr)
        return RATE
    if name not in FIELDS:
        raise BadInput(f"unknown quota {name!r}: this program keeps {', '.join(FIELDS)}")
    return name


def _positive(name: str, value: str) -> float:
    number = read_number(value)
    if number is None or not (math.isfinite(number) and number > 0):
        raise BadInput(f"{name}: expected a finite number above 0, got {value!r}")
    return number


def _milliseconds(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and 0 < int(value) <= _MAX_MS):
        raise BadInput(f"{name}: expected milliseconds from 1 to {_MAX_MS}, got {value!r}")
    return int(value)


def _switch(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise BadInput(f"{name}: expected true or false, got {value!r}")
    return value == "true"


_DEFAULT = {field.name: field.default for field in fields(Quota)}
_READERS: dict[str, Callable[[str, str], Any]] = {
    RATE: _positive,
    "controller_mutation_burst": _positive,
    "max_debt_ms": _milliseconds,
    "shadow": _switch,
}
