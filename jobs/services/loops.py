"""The services that carry out admitted mutations, and that follow brokers' request logs."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from jobs.metrics.endpoint import ServiceEndpoint
from jobs.metrics.loops import ApplierMetrics, LoopHealth, LoopMetrics, counted
from jobs.observe.following import Follower, FollowStats, observer_families
from jobs.observe.tail import check_log
from jobs.query_names import APPLIER, OBSERVER
from jobs.signals import stop_signals
from quota.errors import BadInput
from quota.kafka.applier import Applier, ApplierStats
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.topic_admin import read_cluster
from quota.settings import Settings

_log = logging.getLogger(__name__)


def run_apply(settings: Settings, *, once: bool) -> None:
    """Carry out admitted mutations until stopped, or with `once` those that are available."""
    stats = ApplierStats()
    health = LoopHealth(stats, lambda: "" if stats.positions else "it has no positions yet")
    with ServiceEndpoint(settings.metrics, APPLIER, once=once) as endpoint:
        prepare_topics(settings, [settings.topics.decisions, settings.topics.results, settings.topics.positions])
        if settings.target_connection != settings.kafka.connection:
            # A wrong password must be reported here, not in results.
            read_cluster(settings.target_connection, settings.kafka.timeout_seconds)
        with stop_signals() as stop:
            applier = Applier(settings, stop, stats)
            _log.info("running: applier, on the topics of %s", settings.target_connection)
            pattern = settings.applier.topic_pattern
            if "{user}" not in pattern:
                _log.warning(
                    "any user may create, grow and delete all topics that match applier.topic_pattern %s, also other "
                    "users'; {user} in the pattern restricts each user to their own names",
                    pattern,
                )
            with counted(endpoint, settings, stats, ApplierMetrics(settings, stats), health):
                applier.run(once=once)


def run_follow(settings: Settings, logs: Sequence[Path], *, from_beginning: bool, once: bool) -> None:
    """Follow request logs until stopped, or with `once` to their current ends.

    A log that was not followed before is read from its first line if `from_beginning`.
    """
    if settings.topics.user_topic_prefix:
        raise BadInput(
            "observe follow writes the requests of all users to one topic, but with topics.identity=topic each user "
            "has one; use a separate deployment for observed requests, with different topics and storage.root"
        )
    for log in logs:
        check_log(log, settings.observe.zone)  # before Kafka is contacted
    stats = FollowStats()
    metrics = LoopMetrics(OBSERVER, partial(observer_families, stats))
    with ServiceEndpoint(settings.metrics, OBSERVER, once=once) as endpoint:
        prepare_topics(settings, [settings.topics.requests, settings.topics.positions])
        follower = Follower(settings, logs, stats, from_beginning=from_beginning)
        with stop_signals() as stop, counted(endpoint, settings, stats, metrics, LoopHealth(stats)):
            _log.info("running: observe, %s", ", ".join(map(str, logs)))
            follower.run(stop, once=once)
