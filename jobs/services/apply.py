"""The service that carries out admitted mutations."""

import logging
import threading

from jobs.background import background
from jobs.metrics.applier import ApplierMetrics
from jobs.metrics.endpoint import MetricsEndpoint
from jobs.services.progress import log_progress
from jobs.services.signals import stop_signals
from quota.errors import ClusterError
from quota.kafka.applier.applier import Applier
from quota.kafka.applier.stats import ApplierStats
from quota.kafka.places import TakenOver
from quota.kafka.reading import read_cluster
from quota.kafka.timing import Deadline
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import Settings

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


def run_apply(settings: Settings, *, once: bool) -> None:
    """Carry out admitted mutations until stopped.

    If a cluster stops answering, the service waits for it as long as the settings say.

    Args:
        settings: the settings.
        once: carry out all available mutations, then end.

    Raises:
        ClusterError: a cluster does not answer, or another applier has taken over.
    """
    stats = ApplierStats()
    with stop_signals() as stop, MetricsEndpoint(settings.metrics, once=once) as endpoint:
        prepare_topics(settings, [settings.topics.decisions, settings.topics.results, settings.topics.places])
        if settings.target_connection != settings.kafka.connection:  # a wrong password must fail here, not in results
            read_cluster(settings.target_connection, settings.kafka.timeout_seconds)
        applier: Applier | None = Applier(settings, stop, stats)
        _log.info("running: apply, on the topics of %s", settings.target_connection)
        with (
            background(lambda end: log_progress(stats, end), "progress"),
            endpoint.following(settings, ApplierMetrics(settings, stats)),
        ):
            while applier is not None and not _run_to_end(applier, once=once):
                stats.reopened += 1
                applier = _reopen(settings, stop, stats)
    _log.info("%s", stats)


def _run_to_end(applier: Applier, *, once: bool) -> bool:
    """Run the applier; return false if a cluster stopped answering and a new applier has to continue."""
    try:
        applier.run(once=once)
    except TakenOver:
        raise
    except ClusterError as error:
        _log.warning("%s: trying again", error)
        return False
    return True


def _reopen(settings: Settings, stop: threading.Event, stats: ApplierStats) -> Applier | None:
    """Return a new applier, which continues as after a crash, or None if `stop` is set first."""
    deadline = Deadline(settings.apply.timeout_seconds)
    while not stop.wait(_RETRY_SECONDS):
        try:
            return Applier(settings, stop, stats)
        except ClusterError:
            if deadline.has_passed:
                raise
    return None
