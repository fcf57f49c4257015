"""Entities on the command line: short options, and kafka-configs.sh's long form."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Self

import typer
from msgspec import UNSET, UnsetType
from typer.core import TyperCommand

from jobs.cli.options import checked_text
from quota.errors import BadInput
from quota.records.entity import QuotaEntity

UserDefaults = Annotated[bool, typer.Option("--user-defaults", help="The default for users.")]
AnyUser = Annotated[bool, typer.Option("--any-user", help="Whatever the user, or their default.")]
ClientDefaults = Annotated[bool, typer.Option("--client-defaults", help="The default for client-ids.")]
AnyClient = Annotated[bool, typer.Option("--any-client", help="Whatever the client-id, or their default.")]

LONG_FORM = "Also: --entity-type users|clients with --entity-name NAME or --entity-default, once or twice."


class EntityCommand(TyperCommand):
    """A command that takes kafka-configs.sh's long form of an entity as well."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Click's own, on the short form."""
        any_allowed = any("--any-user" in each.opts for each in self.params)
        return super().parse_args(ctx, short_form(args, any_allowed=any_allowed))


def short_form(args: list[str], *, any_allowed: bool = False) -> list[str]:
    """Arguments with each `--entity-type T` and `--entity-name N` (or `--entity-default`) as the short option of both.

    Args:
        args: the arguments.
        any_allowed: whether types without any name stand for all of them.

    Raises:
        BadInput: types and names do not pair up.
    """
    rest: list[str] = []
    types: list[str] = []
    names: list[str | None] = []
    tokens = iter(args)
    for token in tokens:
        option, equals, value = token.partition("=")
        if option == "--entity-default":
            names.append(None)
        elif option in ("--entity-type", "--entity-name"):
            given = value if equals else _next(tokens, option)
            (types if option == "--entity-type" else names).append(given)
        else:
            rest.append(token)
    if len(set(types)) != len(types):
        raise BadInput(f"--entity-type {types[0]} is given twice")
    if any_allowed and not names:
        return [*rest, *(f"--any-{_option(kind)}" for kind in types)]
    if len(types) != len(names):
        raise BadInput("each --entity-type needs an --entity-name or --entity-default")
    return [*rest, *(_short(_option(kind), name) for kind, name in zip(types, names, strict=True))]


def entity_of(user: str | None, user_defaults: bool, client: str | None, client_defaults: bool) -> QuotaEntity:
    """The entity that the options name.

    Raises:
        BadInput: they name none, or contradict each other.
    """
    parts = (part("user", user, user_defaults), part("client", client, client_defaults))
    if parts == (UNSET, UNSET):
        raise BadInput("whose quota? give --user, --user-defaults, --client, --client-defaults, or a user and a client")
    return QuotaEntity(*parts)


def part(option: str, name: str | None, default: bool) -> str | UnsetType | None:
    """One part of an entity.

    Raises:
        BadInput: it is given twice, or empty.
    """
    if name is None:
        return None if default else UNSET
    if default:
        raise BadInput(f"--{option} and --{option}-defaults exclude each other")
    if not name:
        raise BadInput(f"--{option}: the name is empty; --{option}-defaults is the default")
    return checked_text(option, name)


def _option(kind: str) -> str:
    option = {"users": "user", "clients": "client"}.get(kind)
    if option is None:
        raise BadInput(f"--entity-type {kind}: expected users or clients")
    return option


def _short(option: str, name: str | None) -> str:
    return f"--{option}-defaults" if name is None else f"--{option}={name}"


def _next(tokens: Iterator[str], option: str) -> str:
    value = next(tokens, None)
    if value is None:
        raise BadInput(f"{option} needs a value")
    return value


class _Any(Enum):
    ANY = "any"


_Wanted = str | UnsetType | _Any | None


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """One part of each kind; UNSET where it is not asked for, which `strict` takes for "must not be there"."""

    user: _Wanted
    client: _Wanted
    strict: bool

    @classmethod
    def of(
        cls,
        user: str | None,
        user_defaults: bool,
        any_user: bool,
        client: str | None,
        client_defaults: bool,
        any_client: bool,
        *,
        strict: bool,
    ) -> Self:
        """The filter that the options name.

        Raises:
            BadInput: they contradict each other.
        """
        wanted = (
            _wanted("user", user, user_defaults, any_user),
            _wanted("client", client, client_defaults, any_client),
        )
        if strict and wanted == (UNSET, UNSET):
            raise BadInput("--strict needs something to be strict about: a user, a client-id, --any-user, --any-client")
        return cls(*wanted, strict)

    @property
    def is_open(self) -> bool:
        """Whether all quotas match."""
        return (self.user, self.client) == (UNSET, UNSET)

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether a quota of this entity is wanted."""
        return self._matches(self.user, entity.user) and self._matches(self.client, entity.client_id)

    def _matches(self, wanted: _Wanted, found: str | UnsetType | None) -> bool:
        if wanted is UNSET:
            return not self.strict or found is UNSET
        if wanted is _Any.ANY:
            return found is not UNSET
        return wanted == found


def _wanted(option: str, name: str | None, default: bool, any_name: bool) -> _Wanted:
    if any_name:
        if name is not None or default:
            raise BadInput(f"--any-{option} excludes --{option} and --{option}-defaults")
        return _Any.ANY
    return part(option, name, default)
