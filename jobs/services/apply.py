"""The service that carries out admitted mutations."""

import logging

from jobs.background import background, log_progress
from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.metrics.loops import APPLIER, ApplierMetrics, LoopHealth
from jobs.stopping import stop_signals
from quota.kafka.applier.applier import Applier
from quota.kafka.applier.stats import ApplierStats
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.topic_admin import read_cluster
from quota.settings import Settings

_log = logging.getLogger(__name__)


def run_apply(settings: Settings, *, once: bool) -> None:
    """Carry out admitted mutations until stopped, or with `once` those that are available."""
    stats = ApplierStats()
    health = LoopHealth(stats, lambda: "" if stats.positions else "it has no positions yet")
    with stop_signals() as stop, ServiceEndpoint(settings.metrics, APPLIER, once=once) as endpoint:
        prepare_topics(settings, [settings.topics.decisions, settings.topics.results, settings.topics.positions])
        if (
            settings.target_connection != settings.kafka.connection
        ):  # a wrong password must be reported here, not in results
            read_cluster(settings.target_connection, settings.kafka.timeout_seconds)
        applier = Applier(settings, stop, stats)
        _log.info("running: applier, on the topics of %s", settings.target_connection)
        with (
            background(lambda end: log_progress(stats, end), "progress"),
            endpoint.following(settings, ApplierMetrics(settings, stats), health),
        ):
            applier.run(once=once)
    _log.info("%s", stats)
