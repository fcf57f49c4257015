"""`mutation-quota quotas`: in the option names of kafka-configs.sh."""

import getpass
import math
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from msgspec import UNSET, UnsetType
from typer.core import TyperCommand

from jobs.options import BootstrapServer, ConfigFile, Json, Overrides, settings_of
from quota import codec
from quota.change import QuotaRecord
from quota.entity import QuotaEntity
from quota.errors import BadInput

app = typer.Typer(help="Set quotas, and see which are set.", invoke_without_command=True, rich_markup_mode=None)

RATE = "controller_mutation_rate"

_NUMBER = re.compile(r"[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?")


@app.callback()
def common(context: typer.Context) -> None:
    """Set quotas, and see which are set."""
    if context.invoked_subcommand is None:
        print(context.get_help())


class _EntityCommand(TyperCommand):
    """A command that takes kafka-configs.sh's long form of an entity as well."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, short_form(args))


User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user principal.")]
UserDefaults = Annotated[bool, typer.Option("--user-defaults", help="The default for users.")]
Client = Annotated[str | None, typer.Option("--client", metavar="NAME", help="A client-id.")]
ClientDefaults = Annotated[bool, typer.Option("--client-defaults", help="The default for client-ids.")]

_LONG_FORM = "Also: --entity-type users|clients with --entity-name NAME or --entity-default, once or twice."


@app.command(cls=_EntityCommand, epilog=_LONG_FORM)
def alter(
    context: typer.Context,
    user: User = None,
    user_defaults: UserDefaults = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    add_config: Annotated[
        str | None, typer.Option(metavar=f"{RATE}=X", help="Set a quota of X partition mutations per second.")
    ] = None,
    delete_config: Annotated[str | None, typer.Option(metavar=RATE, help="Remove the quota.")] = None,
    comment: Annotated[str | None, typer.Option(help="Why, for the history.")] = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Set or remove the quota of an entity; it holds for requests from now on."""
    parts = (_part("user", user, user_defaults), _part("client", client, client_defaults))
    if parts == (UNSET, UNSET):
        raise BadInput("whose quota? give --user, --user-defaults, --client, --client-defaults, or a user and a client")
    record = QuotaRecord(
        QuotaEntity(*parts),
        _rate(add_config, delete_config),
        altered_by=_operator(),
        comment=comment and _text("comment", comment),
    )
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_store import set_quota
    from quota.kafka.topics import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])
    since = set_quota(settings, record)
    rate = "removed" if record.controller_mutation_rate is None else f"{RATE}={record.controller_mutation_rate}"
    print(f"Updated config for entity: {record.entity}: {rate} from {_time(since)} on.")


@app.command(cls=_EntityCommand, epilog=_LONG_FORM)
def describe(
    context: typer.Context,
    user: User = None,
    user_defaults: UserDefaults = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """List the quotas that are set: all of them, or those with the given user and client-id."""
    wanted = (_part("user", user, user_defaults), _part("client", client, client_defaults))
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_log import read_quotas

    found = [
        change
        for change in read_quotas(settings).configured(at=time.time_ns() // 1_000_000)
        if wanted[0] in (UNSET, change.entity.user) and wanted[1] in (UNSET, change.entity.client_id)
    ]
    if as_json:
        rows = [{"entity": each.entity, RATE: each.rate, "since": each.moment} for each in found]
        print(codec.encode(rows).decode())
        return
    for each in found:
        print(f"Quota configs for {each.entity} are {RATE}={each.rate} (since {_time(each.moment)})")
    if not found:
        print("No quotas are set." if wanted == (UNSET, UNSET) else "No such quota is set.")


def short_form(args: list[str]) -> list[str]:
    """Arguments with each `--entity-type T` and `--entity-name N` (or `--entity-default`) as the short option of both.

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
    if len(types) != len(names):
        raise BadInput("each --entity-type needs an --entity-name or --entity-default")
    if len(set(types)) != len(types):
        raise BadInput(f"--entity-type {types[0]} is given twice")
    return [*rest, *(_short(kind, name) for kind, name in zip(types, names, strict=True))]


def _short(kind: str, name: str | None) -> str:
    option = {"users": "--user", "clients": "--client"}.get(kind)
    if option is None:
        raise BadInput(f"--entity-type {kind}: expected users or clients")
    return f"{option}-defaults" if name is None else f"{option}={name}"


def _next(tokens: Iterator[str], option: str) -> str:
    value = next(tokens, None)
    if value is None:
        raise BadInput(f"{option} needs a value")
    return value


def _part(option: str, name: str | None, default: bool) -> str | UnsetType | None:
    if name is None:
        return None if default else UNSET
    if default:
        raise BadInput(f"--{option} and --{option}-defaults exclude each other")
    if not name:
        raise BadInput(f"--{option}: the name is empty; --{option}-defaults is the default")
    return _text(option, name)


def _rate(add: str | None, delete: str | None) -> float | None:
    if (add is None) == (delete is None):
        raise BadInput(f"give either --add-config {RATE}=X or --delete-config {RATE}")
    if delete is not None:
        _check_name(delete)
        return None
    name, _, value = (add or "").partition("=")
    _check_name(name)
    rate = float(value) if _NUMBER.fullmatch(value) else math.nan
    if not (math.isfinite(rate) and rate > 0):
        raise BadInput(f"{RATE}: expected a finite number above 0, got {value!r}")
    return rate


def _check_name(name: str) -> None:
    if name != RATE:
        raise BadInput(f"unknown quota {name!r}: this program keeps {RATE}")


def _operator() -> str:
    """Who runs this: a container's user may have a number and no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _text(option: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"--{option} {text!r}: not UTF-8") from None
    return text


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
