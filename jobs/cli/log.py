"""The level and format of the program's log, which is written to standard error."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Literal, TextIO

from jobs.log_lines import log_as_json
from quota.settings.sections import LoggingSettings

_OWN = ("jobs", "quota")
"""The loggers of this project. Those of libraries stay at `info`, because their details would hide ours."""

_FORMAT_VARIABLE = "MUTATION_QUOTA__LOGGING__FORMAT"


_RUST_LOG, _QUIET = "RUST_LOG", "error"
"""The variable from which deltalake reads the level of its log when it is imported.

Its warnings, such as a page on each attempt to find credentials in the cloud, are repeated by the error after them.
"""


LogLevel = Literal["debug", "info", "warning", "error"]


def start_log(program: str, environment: Mapping[str, str] = os.environ) -> None:
    """Log at level `info`, as plain lines, until the settings are read.

    If the environment sets the format, errors in the settings have it, too.
    """
    handlers = [_TerminalHandler()] if sys.stderr.isatty() else None
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=handlers)
    os.environ.setdefault(_RUST_LOG, _QUIET)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if environment.get(_FORMAT_VARIABLE) == "json":
        log_as_json(program)


def set_verbose(*, verbose: bool) -> None:
    """Log at level `debug`, if the option is given."""
    if verbose:
        _set_level("debug")


def follow_settings(settings: LoggingSettings, service: str) -> None:
    """Apply the settings of the log; `-v` overrides the level."""
    if settings.as_json:
        log_as_json(service)
    if "level" in settings.model_fields_set and logging.getLogger(_OWN[0]).level == logging.NOTSET:
        _set_level(settings.level)


class _TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`: a live display replaces it, to print lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _set_level(level: LogLevel) -> None:
    if level == "debug" and os.environ.get(_RUST_LOG) == _QUIET:
        os.environ[_RUST_LOG] = "warn"
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(max(number, logging.INFO))
    for name in _OWN:
        logging.getLogger(name).setLevel(number)
