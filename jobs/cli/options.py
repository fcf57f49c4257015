"""The options that commands share, in groups, the settings that they select, and times."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from jobs.cli.command_config import read_command_config, read_target_command_config
from jobs.cli.output import OutputOptions, print_text, stdout_bytes
from jobs.log_lines import log_as_json, log_verbosely
from jobs.storage.whole_file import whole_file
from quota.errors import BadInput, MutationQuotaError
from quota.kafka.timing import now_ms
from quota.records.record import MAX_EPOCH_MS
from quota.settings import Settings
from quota.settings.listing import setting_names
from quota.settings.loading import LoadedSettings, Override, load_with_origins
from quota.text import format_time
from schemas.documents.records import WrittenFile

_DURATION = re.compile(r"(\d{1,9})([smhd])")

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_MIN_DIGITS = 12
"""The smallest number of digits of epoch ms: fewer may be epoch seconds, or a date such as 20270101."""


_common_option = partial(typer.Option, rich_help_panel="Common options")
"""An option that most commands have. Their panel follows the command's own options."""

time_option = partial(typer.Option, metavar="TIME")
A_TIME = "ISO 8601 (UTC without a zone), epoch ms"


def _complete_setting(incomplete: str) -> list[str]:
    return [f"{name}=" for name in setting_names() if name.startswith(incomplete)]


User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="User principal.")]
Client = Annotated[str | None, typer.Option("--client", metavar="NAME", help="Client-id.")]
TopicName = Annotated[
    str | None,
    typer.Option(
        "--topic", metavar="NAME", help="Topic in the request; with --rejected or --last, one that was rejected."
    ),
]
Overrides = Annotated[
    list[str] | None,
    _common_option(
        "--set",
        metavar="NAME=VALUE",
        help="Set SECTION.KEY, whatever the environment and the file have. Repeatable.",
        autocompletion=_complete_setting,
    ),
]
Verbose = Annotated[bool, _common_option("--verbose", "-v", help="Log at level debug, and print tracebacks.")]
SettingsFile = Annotated[
    Path | None,
    _common_option(
        "--settings",
        metavar="FILE",
        help="Settings file (TOML). Default: conf/mutation-quota.toml in the working directory.",
    ),
]
Comment = Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="Reason, shown in the history.")]
EffectiveAt = Annotated[
    str | None,
    time_option("--effective-at", help=f"When the change takes effect: {A_TIME}, +2h. Default: now."),
]
ScheduledAt = Annotated[
    str | None, time_option(help=f"Time for which the change is scheduled: {A_TIME}. Default: that of the only one.")
]
Once = Annotated[bool, typer.Option("--once", help="Process what is available now, then exit.")]
Requests = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="File of requests (JSON lines) to read instead of the audit's tables; - for stdin."
    ),
]
At = Annotated[str | None, time_option(help=f"Point in time: {A_TIME}, -2h. Default: now.")]


@dataclass(frozen=True, slots=True)
class PeriodOptions:
    """The options that select a period."""

    since: Annotated[str | None, time_option("--from", help=f"Start: {A_TIME}, -2h.")] = None
    until: Annotated[str | None, time_option("--to", help=f"End, not included: {A_TIME}, -2h.")] = None

    def parse(self) -> tuple[int | None, int | None]:
        """Return the start and the end, epoch ms; None for one that is not given."""
        start = None if self.since is None else parse_time("--from", self.since)
        end = None if self.until is None else parse_time("--to", self.until)
        if start is not None and end is not None and start >= end:
            raise BadInput(f"--from {self.since} must be before --to {self.until}")
        return start, end


@dataclass(frozen=True, slots=True)
class SettingsOptions:
    """The options that select settings."""

    context: typer.Context
    overrides: Overrides = None
    settings_file: SettingsFile = None
    verbose: Verbose = False

    def read(self, *more: Override) -> Settings:
        """Load the settings that the options before and after the command select, and set the log level.

        The settings `more`, given by other options, override `--set`.
        """
        settings = self.read_with_origins(*more).settings
        if settings.logging.format == "json":
            log_as_json(self.context.command_path.partition(" ")[2])
        return settings

    def read_with_origins(self, *more: Override) -> LoadedSettings:
        """Load the settings as `read` does, with the origin of each value."""
        if self.verbose:
            log_verbosely()
        return load_with_origins(*self._selected(*more))

    def _selected(self, *more: Override) -> tuple[list[str | Override], Path | None]:
        """Return the overrides and the file that the options before and after the command select."""
        global_overrides, global_file = self.context.obj or ([], None)
        return [*global_overrides, *(self.overrides or []), *more], self.settings_file or global_file


@dataclass(frozen=True, slots=True)
class KafkaOptions(SettingsOptions):
    """The options of a command that connects to Kafka."""

    server: Annotated[
        str | None,
        _common_option(
            "--bootstrap-server",
            metavar="HOST:PORT",
            help="Brokers of the deployment. Default: kafka.bootstrap_servers.",
        ),
    ] = None
    command_config: Annotated[
        Path | None,
        _common_option("--command-config", metavar="FILE", help="Kafka properties file to connect with (TLS, SASL)."),
    ] = None

    def _selected(self, *more: Override) -> tuple[list[str | Override], Path | None]:
        if self.server is not None:
            more = (Override(f"kafka.bootstrap_servers={self.server}", "--bootstrap-server"), *more)
        overrides, file = super(KafkaOptions, self)._selected(*more)
        return [*(read_command_config(self.command_config) if self.command_config else []), *overrides], file


@dataclass(frozen=True, slots=True)
class TargetOptions(KafkaOptions):
    """The options of a command that connects to Kafka and to the target cluster."""

    target_command_config: Annotated[
        Path | None,
        _common_option(
            "--target-command-config",
            metavar="FILE",
            help="Kafka properties file to connect to the target cluster with.",
        ),
    ] = None

    def _selected(self, *more: Override) -> tuple[list[str | Override], Path | None]:
        overrides, file = super(TargetOptions, self)._selected(*more)
        target = read_target_command_config(self.target_command_config) if self.target_command_config else []
        return [*target, *overrides], file


@dataclass(frozen=True, slots=True)
class ConfirmOptions:
    """The options of a command that asks for confirmation."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False

    def check(self, output: OutputOptions | None = None) -> None:
        """Check that the command can ask for confirmation, before it does anything."""
        if self.dry_run or self.yes:
            return
        if output and not output.for_people:
            raise BadInput("a command that prints data cannot ask for confirmation: add --yes or --dry-run")
        if not sys.stdin.isatty():
            raise BadInput(
                "no terminal to ask for confirmation: add --yes to make the change, or --dry-run to preview it"
            )

    def confirm(self, question: str) -> None:
        """Ask a question on the terminal, unless `--yes` is given."""
        if not self.yes and not typer.confirm(question, err=True):
            raise MutationQuotaError("nothing was changed")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options of a command that writes a file."""

    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output-file",
            metavar="FILE",
            help="File to write; - for standard output. For a file, --output is the format of the summary.",
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False

    @property
    def to_stdout(self) -> bool:
        """Whether the content goes to standard output."""
        return self.output_file is None or str(self.output_file) == "-"

    def check(self, summary: OutputOptions | None = None) -> None:
        """Check, before its content is computed, that the file can be written, and that a summary would be printed."""
        if self.to_stdout and summary and not summary.for_people:
            raise BadInput(
                "--output is the format of the summary, and the content goes to standard output: "
                "add --output-file FILE, or remove --output"
            )
        file = self.output_file
        if file is None or self.to_stdout:
            return
        if file.exists() and not file.is_file():  # the file would replace the device
            raise BadInput(f"--output-file {file}: this is not a regular file; - is standard output")
        if file.exists() and not self.force:
            raise BadInput(f"--output-file {file}: the file exists; add --force to replace it")
        if not file.absolute().parent.is_dir():
            raise BadInput(f"--output-file {file}: the folder {file.parent} does not exist")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file, which appears only when it is complete, or standard output."""
        file = self.output_file
        if file is None or self.to_stdout:
            yield stdout_bytes()
            sys.stdout.flush()
            return
        self.check()
        of_content: OSError | None = None
        try:
            with whole_file(file, new=not self.force) as out:
                try:
                    yield out
                except OSError as error:
                    of_content = error
                    raise
        except OSError as error:
            if error is of_content and error.filename != str(file):
                raise  # of another file
            raise BadInput(f"--output-file {file}: {error.strerror}") from None

    def write(self, content: str) -> None:
        """Write the content of the file, or print it to standard output."""
        with self.open() as out:
            out.write(content.encode())

    def print_written(self, output: OutputOptions, what: str, **counts: int) -> None:
        """Print that the file was written, and what it has, unless the content went to standard output.

        `counts` are what a program gets instead, by the fields of `WrittenFile`.
        """
        if not self.to_stdout:
            document = WrittenFile(str(self.output_file), **counts)
            output.print(document, lambda: print_text(f"Wrote {self.output_file}: {what}."))


def check_inputs(*files: str | Path | None) -> None:
    """Check that the files exist, and that not more than one is standard input (`-`), which can be read once."""
    given = [str(file) for file in files if file is not None]
    if given.count("-") > 1:
        raise BadInput("-: standard input can be only one of the files")
    for file in given:
        if file != "-" and not Path(file).exists():
            raise BadInput(f"{file}: No such file or directory")


def parse_pair(option: str, text: str) -> tuple[str, str]:
    """Split an option's NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadInput(f"--{option} {text}: expected NAME=VALUE")
    return name, value


def split_configs(texts: list[str] | None) -> list[str]:
    """Split configs as kafka-configs.sh does: separated by commas, except inside [a,b]. The option is repeatable."""
    configs = []
    for text in texts or []:
        part, depth = "", 0
        for character in text:
            depth += (character == "[") - (character == "]")
            if character == "," and depth <= 0:
                configs.append(part)
                part = ""
            else:
                part += character
        configs.append(part)
    return [config.strip() for config in configs]


def parse_time(option: str, text: str) -> int:
    """Return a time in epoch ms: from epoch ms, ISO 8601 (UTC without a zone), or relative to now as -2h and +30m."""
    try:
        if text[:1] in {"+", "-"} and (ago := _DURATION.fullmatch(text[1:])):
            moment = now_ms() + int(f"{text[0]}1") * int(ago[1]) * _UNITS_MS[ago[2]]
        elif text.isascii() and text.isdigit():
            moment = int(text) if len(text) >= _MIN_DIGITS else -1
        else:
            local = datetime.fromisoformat(text)
            moment = round((local if local.tzinfo else local.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        moment = -1
    if not 0 <= moment <= MAX_EPOCH_MS:
        raise BadInput(
            f"{option} {text!r}: expected a time: 2026-11-21T14:00 (UTC), epoch ms, or relative to now (-2h, +30m)"
        )
    return moment


def parse_duration(option: str, text: str) -> int:
    """Return a duration in ms, such as 90s, 15m, 1h or 7d."""
    match = _DURATION.fullmatch(text)
    if match is None or not int(match[1]):
        raise BadInput(f"{option} {text!r}: expected a duration, such as 90s, 15m, 1h or 7d")
    return int(match[1]) * _UNITS_MS[match[2]]


def parse_effective_at(text: str | None) -> int | None:
    """Parse `--effective-at`: the time when a change takes effect (epoch ms), not in the past; None if not given."""
    if text is None:
        return None
    moment = parse_time("--effective-at", text)
    if moment <= now_ms():
        when = f"{format_time(moment)} is in the past"
        raise BadInput(f"--effective-at {text}: {when}; a change can take effect now or later")
    return moment
