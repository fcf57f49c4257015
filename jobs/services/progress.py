"""Logs the counts of a service."""

import logging
import threading

_log = logging.getLogger(__name__)

_LOG_SECONDS = 10.0


def log_progress(stats: object, end: threading.Event) -> None:
    """Log the counts (`str(stats)`) every 10 s if they have changed, until `end` is set."""
    logged = str(stats)
    while not end.wait(_LOG_SECONDS):
        if logged != str(stats):
            logged = str(stats)
            _log.info("%s", logged)
