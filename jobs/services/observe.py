"""The service that follows brokers' request logs."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from jobs.background import background, log_progress
from jobs.metrics.families import observer_families
from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.metrics.loops import OBSERVER, LoopHealth, LoopMetrics
from jobs.metrics.stats import FollowStats
from jobs.observe.following import Follower
from jobs.observe.tail import check_log
from jobs.stopping import stop_signals
from quota.errors import BadInput
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import Settings

_log = logging.getLogger(__name__)


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
    with stop_signals() as stop, ServiceEndpoint(settings.metrics, OBSERVER, once=once) as endpoint:
        prepare_topics(settings, [settings.topics.requests, settings.topics.positions])
        follower = Follower(settings, logs, stats, from_beginning=from_beginning)
        _log.info("running: observe, %s", ", ".join(map(str, logs)))
        with (
            background(lambda end: log_progress(stats, end), "progress"),
            endpoint.following(settings, LoopMetrics(OBSERVER, partial(observer_families, stats)), LoopHealth(stats)),
        ):
            follower.run(stop, once=once)
    _log.info("%s", stats)
