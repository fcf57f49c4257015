"""The program's log, which is written to standard error: its level, and its format."""

import enum
import logging
import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from jobs.cli.program.help_text import COMMON_OPTIONS
from jobs.spark.log_lines import log_as_json
from quota.settings.sections import LoggingSettings

_OWN = ("jobs", "quota")
"""The loggers of this project. Those of libraries stay at `info`: their details would hide ours."""

_FORMAT_VARIABLE = "MUTATION_QUOTA__LOGGING__FORMAT"


_RUST_LOG, _QUIET = "RUST_LOG", "error"
"""The variable from which deltalake takes the level of its own log when it is imported.

Its warnings, such as a page on each attempt to find credentials in the cloud, come before an error that says the same.
"""


class LogLevel(enum.Enum):
    """A level of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevelOption = Annotated[
    LogLevel | None,
    typer.Option("--log-level", help="Least severe lines to log. Default: info.", rich_help_panel=COMMON_OPTIONS),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Same as --log-level debug: also shows where an error comes from.",
        rich_help_panel=COMMON_OPTIONS,
    ),
]


def start_log(program: str, environment: Mapping[str, str] = os.environ) -> None:
    """Log from `info` on, as lines without decoration until the settings are read.

    Where the environment sets the format, errors of the settings have it, too.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    os.environ.setdefault(_RUST_LOG, _QUIET)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if environment.get(_FORMAT_VARIABLE) == "json":
        log_as_json(program)


def set_log_level(level: LogLevel | None, *, verbose: bool) -> None:
    """Set the level of the log, unless neither option is given."""
    chosen = LogLevel.DEBUG if verbose else level
    if chosen is not None:
        _set_level(chosen)


def follow_settings(settings: LoggingSettings, service: str) -> None:
    """Log as the settings say; an option that sets the level goes before them.

    Args:
        settings: the settings of the log.
        service: the name of the command, as lines of JSON have it.
    """
    if settings.as_json:
        log_as_json(service)
    if "level" in settings.model_fields_set and logging.getLogger(_OWN[0]).level == logging.NOTSET:
        _set_level(LogLevel(settings.level))


def _set_level(level: LogLevel) -> None:
    if level is LogLevel.DEBUG and os.environ.get(_RUST_LOG) == _QUIET:
        os.environ[_RUST_LOG] = "warn"
    number = logging.getLevelNamesMapping()[level.name]
    logging.getLogger().setLevel(max(number, logging.INFO))
    for name in _OWN:
        logging.getLogger(name).setLevel(number)
