"""The applier as a service: prepared, run until it is stopped."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.metrics.endpoint import MetricsEndpoint
from jobs.spark.queries import stop_signals
from quota.errors import ClusterError
from quota.kafka.applier.applier import Applier
from quota.kafka.applier.ledger import TakenOver
from quota.kafka.applier.stats import ApplierStats
from quota.kafka.cluster import read_cluster
from quota.kafka.topics.specs import prepare_topics
from quota.settings.model import Settings

_log = logging.getLogger(__name__)

_LINE_SECONDS = 10.0
_AGAIN_SECONDS = 1.0


def run_apply(settings: Settings, *, once: bool) -> None:
    """Carry out admitted mutations until stopped, or until all that are there are done.

    A cluster that goes away meanwhile is waited for, as long as the settings say.

    Raises:
        ClusterError: it does not answer, or another applier has taken over.
    """
    tally = ApplierStats()
    with stop_signals() as stop, MetricsEndpoint(settings.metrics, once=once) as endpoint:
        prepare_topics(settings, [settings.topics.decisions, settings.topics.results, settings.topics.places])
        if settings.target_connection != settings.kafka.connection:  # a wrong password is told now, and not as results
            read_cluster(settings.target_connection, settings.kafka.timeout_seconds)
        applier: Applier | None = Applier(settings, stop, tally)
        _log.info("running: apply, on the topics of %s", settings.target_connection)
        with _progress(tally), endpoint.following_applier(settings, tally):
            while applier is not None and not _finished(applier, once=once):
                tally.reopened += 1
                applier = _opened_again(settings, stop, tally)
    _log.info("%s", tally)


def _finished(applier: Applier, *, once: bool) -> bool:
    """Run until it ends; false where it has to be opened again."""
    try:
        applier.run(once=once)
    except TakenOver:
        raise
    except ClusterError as error:
        _log.warning("%s: trying again", error)
        return False
    return True


def _opened_again(settings: Settings, stop: threading.Event, tally: ApplierStats) -> Applier | None:
    """An applier that goes on as after a crash; None if it is stopped before it can."""
    deadline = time.monotonic() + settings.apply.timeout_seconds
    while not stop.wait(_AGAIN_SECONDS):
        try:
            return Applier(settings, stop, tally)
        except ClusterError:
            if time.monotonic() > deadline:
                raise
    return None


@contextmanager
def _progress(tally: ApplierStats) -> Iterator[None]:
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
