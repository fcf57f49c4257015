"""Resumes work after a cluster has stopped responding."""

import logging
import math
import threading
from collections.abc import Callable
from typing import TypeVar

from quota.errors import ClusterError
from quota.kafka.positions import TakenOver
from quota.kafka.timing import Deadline, LoopStats

W = TypeVar("W")

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


def run_reopening(opened: W, run: Callable[[W], None], reopen: Callable[[], W | None], stats: LoopStats) -> None:
    """Run work to its end; resume it if a cluster stops responding.

    Args:
        opened: the opened work.
        run: runs it.
        reopen: opens it again, to resume as after a crash (`open_again`); returns None to stop.
        stats: the counts, which are updated.

    Raises:
        TakenOver: another program has taken over the work.
        ClusterError: it could not be resumed.
    """
    work: W | None = opened
    while work is not None and not _runs_to_end(run, work, stats):
        stats.reopened += 1
        work = reopen()
        stats.waits_for = ""


def open_again(
    make: Callable[[], W], stop: threading.Event, seconds: float = math.inf, *, logged: bool = False
) -> W | None:
    """Return the result of `make` when the cluster responds again; None if `stop` is set first.

    Args:
        make: opens the work.
        stop: ends the waiting.
        seconds: the time limit.
        logged: whether to log each failure.

    Raises:
        ClusterError: the cluster does not respond in time.
    """
    deadline = Deadline(seconds)
    while not stop.wait(_RETRY_SECONDS):
        try:
            return make()
        except ClusterError as error:
            if deadline.has_passed:
                raise
            if logged:
                _log_retry(error)
    return None


def _runs_to_end(run: Callable[[W], None], work: W, stats: LoopStats) -> bool:
    try:
        run(work)
    except TakenOver:
        raise
    except ClusterError as error:
        stats.waits_for = str(error)
        _log_retry(error)
        return False
    return True


def _log_retry(error: ClusterError) -> None:
    _log.warning("%s: retrying", error)
