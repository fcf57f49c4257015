"""Entities and quotas in the notation of kafka-configs.sh: its options, its configs, and KIP-546's filter."""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeAlias

import msgspec
import typer
from msgspec import UNSET, UnsetType
from msgspec.structs import fields, replace

from jobs.cli.groups import SingleValuesCommand
from jobs.cli.options import Client, User
from quota.errors import BadInput, NotFound
from quota.records.entity import QuotaEntity
from quota.records.quota_log import BURST_CONFIG, LIMIT_CONFIG, QUOTA_CONFIGS, RATE_CONFIG, Quota
from quota.settings.sections import KafkaSettings
from quota.text import config_value

_OTHER_SPELLING = "controller_mutations_rate"
"""A spelling of the rate that KIP-599 uses too."""

_DEFAULT = {field.name: field.default for field in fields(Quota)}

_EXPECTED = {
    RATE_CONFIG: "a finite number above 0",
    BURST_CONFIG: "a finite number above 0",
    "max_debt_ms": f"milliseconds from 1 to {2**31 - 1}",
    "shadow": "true or false",
    LIMIT_CONFIG: f"a whole number from 1 to {2**31 - 1}",
}


Part: TypeAlias = str | UnsetType | None
"""A part of an entity: a name, None for the default, UNSET for a part that the entity does not have."""


@dataclass(frozen=True, slots=True)
class EntityOptions:
    """The options that name an entity."""

    user: User = None
    user_defaults: Annotated[bool, typer.Option("--user-defaults", help="Default for users.")] = False
    client: Client = None
    client_defaults: Annotated[bool, typer.Option("--client-defaults", help="Default for client-ids.")] = False

    def parse(self) -> QuotaEntity:
        """Return the entity that the options name."""
        entity = self.parse_optional()
        if entity is None:
            raise BadInput(
                "whose quota? give --user, --user-defaults, --client, --client-defaults, or a user and a client"
            )
        return entity

    def parse_optional(self) -> QuotaEntity | None:
        """Return the entity that the options name; None if they name none."""
        parts = (
            _parse_part("user", self.user, default=self.user_defaults),
            _parse_part("client", self.client, default=self.client_defaults),
        )
        return None if parts == (UNSET, UNSET) else QuotaEntity(*parts)


def _parse_part(option: str, name: str | None, *, default: bool) -> Part:
    if name is None:
        return None if default else UNSET
    if default:
        raise BadInput(f"--{option} and --{option}-defaults are mutually exclusive")
    if not name:
        raise BadInput(f"--{option}: the name is empty; use --{option}-defaults for the default")
    return name


class EntityCommand(SingleValuesCommand):
    """A command that also takes kafka-configs.sh's long form of an entity."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 Typer's types
        super().__init__(*args, **kwargs)
        self._takes_any = any("--any-user" in param.opts for param in self.params)
        about = "kafka-configs.sh's --entity-type users|clients with --entity-name NAME or --entity-default also works."
        any_name = " A type without a name matches any name." if self._takes_any else ""
        self.epilog = f"{about}{any_name}\n\n{self.epilog or ''}"

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Convert arguments of kafka-configs.sh to their short form, without `--alter` and such, and parse them."""
        args = [arg for arg in args if arg != f"--{ctx.info_name}"]
        return super().parse_args(ctx, to_short_form(args, any_allowed=self._takes_any))


def to_short_form(args: list[str], *, any_allowed: bool = False) -> list[str]:
    """Replace each `--entity-type T` and its `--entity-name N` or `--entity-default` with one short option."""
    rest: list[str] = []
    types: list[str] = []
    names: list[str | None] = []
    tokens = iter(args)
    for token in tokens:
        option, equals, value = token.partition("=")
        if option == "--entity-default":
            names.append(None)
        elif option == "--entity-type":
            types.append(value if equals else _next_value(tokens, option))
        elif option == "--entity-name":
            names.append(value if equals else _next_value(tokens, option))
        else:
            rest.append(token)
    for kind in types:
        if types.count(kind) > 1:
            raise BadInput(f"--entity-type {kind} is given twice")
    if any_allowed and not names:
        return [*rest, *(f"--any-{_part_option(kind)}" for kind in types)]
    if len(types) != len(names):
        raise BadInput("each --entity-type needs an --entity-name or --entity-default")
    named = zip(map(_part_option, types), names, strict=True)
    return [*rest, *(f"--{part}-defaults" if name is None else f"--{part}={name}" for part, name in named)]


def _part_option(entity_type: str) -> str:
    option = {"users": "user", "clients": "client"}.get(entity_type)
    if option is None:
        raise BadInput(f"--entity-type {entity_type}: expected users or clients")
    return option


def _next_value(tokens: Iterator[str], option: str) -> str:
    value = next(tokens, None)
    if value is None:
        raise BadInput(f"{option} needs a value")
    return value


@dataclass(frozen=True, slots=True)
class EntityFilterOptions(EntityOptions):
    """The options of a filter of entities."""

    any_user: Annotated[bool, typer.Option("--any-user", help="Match any user, including the default.")] = False
    any_client: Annotated[bool, typer.Option("--any-client", help="Match any client-id, including the default.")] = (
        False
    )
    strict: Annotated[
        bool, typer.Option("--strict", help="Match exactly: skip quotas that also name the other entity type.")
    ] = False

    def parse_filter(self) -> Callable[[QuotaEntity], bool] | None:
        """Return the filter that the options describe (KIP-546); None if they describe none."""
        user = _part_filter("user", self.user, default=self.user_defaults, any_name=self.any_user)
        client = _part_filter("client", self.client, default=self.client_defaults, any_name=self.any_client)
        if user is None and client is None:
            if self.strict:
                raise BadInput("--strict needs a filter: a user, a client-id, --any-user or --any-client")
            return None
        other = (lambda part: part is UNSET) if self.strict else (lambda _: True)
        return lambda entity: (user or other)(entity.user) and (client or other)(entity.client_id)


def _part_filter(option: str, name: str | None, *, default: bool, any_name: bool) -> Callable[[Part], bool] | None:
    if any_name:
        if name is not None or default:
            raise BadInput(f"--any-{option} excludes --{option} and --{option}-defaults")
        return lambda part: part is not UNSET
    expected = _parse_part(option, name, default=default)
    return None if expected is UNSET else lambda part: part == expected


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
            names = ", ".join(unset)
            raise NotFound(
                f"{names} is not set and cannot be deleted; see quotas describe, and cancel what is scheduled"
            )
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
