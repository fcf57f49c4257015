"""The level of the program's log, which is written to standard error."""

import enum
import logging
import sys
from typing import Annotated

import typer

_OWN = ("jobs", "quota")
"""The loggers of this project. Those of libraries stay at `info`: their details would hide ours."""


class LogLevel(enum.Enum):
    """A level of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevelOption = Annotated[
    LogLevel | None, typer.Option("--log-level", help="Least severe lines to log. Default: info.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Same as --log-level debug: also shows where an error comes from.")
]


def start_log() -> None:
    """Log lines without decoration from `info` on."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)


def set_log_level(level: LogLevel | None, *, verbose: bool) -> None:
    """Set the level of the log, unless neither option is given."""
    chosen = LogLevel.DEBUG if verbose else level
    if chosen is None:
        return
    number = logging.getLevelNamesMapping()[chosen.name]
    logging.getLogger().setLevel(max(number, logging.INFO))
    for name in _OWN:
        logging.getLogger(name).setLevel(number)
