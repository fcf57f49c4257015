"""Resumes work after a cluster has stopped responding."""

import logging
import math
import threading
from collections.abc import Callable

from quota.errors import ClusterError
from quota.kafka.positions import TakenOver
from quota.kafka.timing import Deadline, LoopStats

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


def run_reopening(
    run: Callable[[], None],
    reopen: Callable[[], Callable[[], None]],
    stats: LoopStats,
    stop: threading.Event,
    seconds: float = math.inf,
) -> None:
    """Run work to its end; if a cluster stops responding, open the work again when it responds, as after a crash.

    `reopen` opens it and returns what runs it; it is attempted until `stop` is set, for `seconds` at most. Another
    program that has taken over the work ends it (`TakenOver`).
    """
    while True:
        try:
            run()
        except TakenOver:
            raise
        except ClusterError as error:
            stats.waits_for = str(error)
            _log.warning("%s: retrying", error)
        else:
            return
        stats.reopened += 1
        deadline = Deadline(seconds)
        while True:
            if stop.wait(_RETRY_SECONDS):
                return
            try:
                run = reopen()
            except ClusterError as error:
                if deadline.has_passed:
                    raise
                stats.waits_for = str(error)
            else:
                break
        stats.waits_for = ""
