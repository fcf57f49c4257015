"""What every command takes: where its settings come from."""

from pathlib import Path
from typing import Annotated

import typer

from quota.settings import Settings, load_settings

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
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def settings_of(
    context: typer.Context, overrides: list[str] | None, file: Path | None, server: str | None = None
) -> Settings:
    """Settings from a command's options, and from those that stand before the command."""
    before, file_before = context.obj or ([], None)
    servers = [f"kafka.bootstrap_servers={server}"] if server else []
    return load_settings([*before, *(overrides or []), *servers], file or file_before)
