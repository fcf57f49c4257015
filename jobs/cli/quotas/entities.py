"""Entities on the command line: the options that name one, kafka-configs.sh's long form, and KIP-546's filter."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer
from msgspec import UNSET, UnsetType

from jobs.cli.groups import SingleValuesCommand
from jobs.cli.options import Client, User
from quota.errors import BadInput
from quota.records.entity import QuotaEntity

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
    return [*rest, *(_short_option(_part_option(kind), name) for kind, name in zip(types, names, strict=True))]


def _part_option(entity_type: str) -> str:
    option = {"users": "user", "clients": "client"}.get(entity_type)
    if option is None:
        raise BadInput(f"--entity-type {entity_type}: expected users or clients")
    return option


def _short_option(option: str, name: str | None) -> str:
    return f"--{option}-defaults" if name is None else f"--{option}={name}"


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
