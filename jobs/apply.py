"""The applier as a service: prepared, run until it is stopped."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.running import stop_signals
from quota.kafka.applier import Applier, Tally
from quota.kafka.topics import prepare_topics
from quota.settings import Settings

_log = logging.getLogger(__name__)

_LINE_SECONDS = 10.0


def run_apply(settings: Settings, *, once: bool) -> Tally:
    """Carry out admitted mutations until stopped, or until all that are there are done."""
    prepare_topics(settings, [settings.topics.decisions, settings.topics.results])
    with stop_signals() as stop:
        applier = Applier(settings, stop)
        _log.info("running: apply, on the topics of %s", settings.kafka.target)
        with _progress(applier.tally):
            applier.run(once=once)
    _log.info("%s", applier.tally)
    return applier.tally


@contextmanager
def _progress(tally: Tally) -> Iterator[None]:
    """A line now and then, if there is something new."""
    end = threading.Event()

    def tell() -> None:
        told = str(tally)
        while not end.wait(_LINE_SECONDS):
            if told != str(tally):
                told = str(tally)
                _log.info("%s", told)

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
