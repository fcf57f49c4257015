"""What every command takes: where its settings come from."""

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer

from quota.errors import BadInput
from quota.records import codec
from quota.settings.loading import load_settings
from quota.settings.model import Settings

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user principal.")]
Client = Annotated[str | None, typer.Option("--client", metavar="NAME", help="A client-id.")]


def checked_text(option: str, text: str) -> str:
    """Text that can stand in a record.

    Raises:
        BadInput: it is not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"--{option} {text!r}: not UTF-8") from None
    return text


Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="A setting, over the environment and the file."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings in TOML; conf/mutation-quota.toml if there is one."),
]
BootstrapServer = Annotated[
    str | None,
    typer.Option("--bootstrap-server", metavar="HOST:PORT", help="Short for --set kafka.bootstrap_servers=..."),
]
Comment = Annotated[str | None, typer.Option("--comment", help="Why, for the history.")]
EffectiveAt = Annotated[
    str | None,
    typer.Option("--effective-at", metavar="TIME", help="From then on: ISO 8601, epoch ms, +2h. Now by default."),
]
Requests = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="In place of the audit's tables: JSON lines of requests, as of simulate; - for stdin."
    ),
]
At = Annotated[str | None, typer.Option(metavar="TIME", help="As of then: ISO 8601, epoch ms, -2h. Now by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def pair_of(option: str, text: str) -> tuple[str, str]:
    """The two sides of an option's NAME=VALUE.

    Raises:
        BadInput: it is none, or not UTF-8.
    """
    name, equals, value = checked_text(option, text).partition("=")
    if not (name and equals):
        raise BadInput(f"--{option} {text}: expected NAME=VALUE")
    return name, value


def settings_of(
    context: typer.Context, overrides: list[str] | None, file: Path | None, server: str | None = None
) -> Settings:
    """Settings from a command's options, and from those that stand before the command."""
    before, file_before = context.obj or ([], None)
    servers = [f"kafka.bootstrap_servers={server}"] if server else []
    return load_settings([*before, *(overrides or []), *servers], file or file_before)


def text_of(option: str, text: str | None) -> str | None:
    """An option's text, where it is given.

    Raises:
        BadInput: it is not UTF-8.
    """
    return None if text is None else checked_text(option, text)


def operator(settings: Settings) -> str:
    """Who runs this, for the history: as the settings say, or the operating system's user."""
    if settings.quota.altered_by:
        return settings.quota.altered_by
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number and no name
        return f"uid {os.getuid()}"


def print_json(value: object) -> None:
    """One JSON document on one line."""
    print(codec.encode(value).decode())
