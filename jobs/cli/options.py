"""The options that commands share, and the settings that they select."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import typer

from jobs.cli.program.log import LogLevelOption, Verbose, set_log_level
from jobs.storage.whole_file import write_whole
from quota.errors import BadInput
from quota.records import codec
from quota.settings import Settings, load_settings
from quota.settings.loading import LoadedSettings, load_with_origins

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user principal.")]
Client = Annotated[str | None, typer.Option("--client", metavar="NAME", help="A client-id.")]
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
ScheduledAt = Annotated[str, typer.Option(metavar="TIME", help="When the change would hold from.")]
Requests = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="In place of the audit's tables: JSON lines of requests, as of simulate; - for stdin."
    ),
]
At = Annotated[str | None, typer.Option(metavar="TIME", help="As of then: ISO 8601, epoch ms, -2h. Now by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@dataclass(frozen=True, slots=True)
class SettingsOptions:
    """The options that select settings."""

    context: typer.Context
    overrides: Overrides = None
    config: ConfigFile = None
    log_level: LogLevelOption = None
    verbose: Verbose = False

    def read(self, *more: str) -> Settings:
        """Load the settings that the options select, those before the command included, and set the log's level.

        Args:
            more: settings as `--set` takes them, which win over it.

        Raises:
            BadInput: a setting or the file is invalid.
        """
        set_log_level(self.log_level, verbose=self.verbose)
        return read_settings(self.context, [*(self.overrides or []), *more], self.config, self._server)

    def read_with_origins(self) -> LoadedSettings:
        """Load the settings as `read` does, and tell where they come from.

        Raises:
            BadInput: a setting or the file is invalid.
        """
        set_log_level(self.log_level, verbose=self.verbose)
        return load_with_origins(*_selected(self.context, self.overrides, self.config, self._server))

    @property
    def _server(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class KafkaOptions(SettingsOptions):
    """The options that select settings, of a command that connects to Kafka."""

    server: BootstrapServer = None

    @property
    def _server(self) -> str | None:
        return self.server


def read_settings(
    context: typer.Context, overrides: list[str] | None, file: Path | None, server: str | None = None
) -> Settings:
    """Load the settings that the options before and after the command select; those after it win.

    Raises:
        BadInput: a setting or the file is invalid.
    """
    return load_settings(*_selected(context, overrides, file, server))


def _selected(
    context: typer.Context, overrides: list[str] | None, file: Path | None, server: str | None
) -> tuple[list[str], Path | None]:
    """Return the overrides and the file that the options before and after the command select."""
    global_overrides, global_file = context.obj or ([], None)
    servers = [f"kafka.bootstrap_servers={server}"] if server else []
    return [*global_overrides, *(overrides or []), *servers], file or global_file


def parse_pair(option: str, text: str) -> tuple[str, str]:
    """Split an option's NAME=VALUE.

    Raises:
        BadInput: the name or the equals sign is missing.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadInput(f"--{option} {text}: expected NAME=VALUE")
    return name, value


def check_new_file(option: str, file: Path | None) -> None:
    """Check that a file that an option names can be written.

    Raises:
        BadInput: it is there already, or its folder is not.
    """
    if file is None:
        return
    if file.exists():
        raise BadInput(f"{option} {file}: there is such a file; move it away, or name another")
    if not file.absolute().parent.is_dir():
        raise BadInput(f"{option} {file}: there is no folder {file.parent}")


def write_new_file(option: str, file: Path, content: str) -> None:
    """Write a file that an option names, as a whole or not at all.

    Raises:
        BadInput: it cannot be written, or is there already.
    """
    try:
        write_whole(file, content, new=True)
    except OSError as error:
        raise BadInput(f"{option} {file}: {error.strerror}") from None


def print_json(value: object, file: TextIO | None = None) -> None:
    """Print a JSON document on one line, by default to standard output."""
    print(codec.encode(value).decode(), file=file)
