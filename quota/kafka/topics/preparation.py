"""The preparation of a deployment's topics before a job starts."""

import logging
from collections.abc import Collection

from quota.errors import ClusterError
from quota.kafka.topics.checks import problems
from quota.kafka.topics.durability import durability_warnings, replicated
from quota.kafka.topics.specs import topic_specs, user_topic_names
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings

_log = logging.getLogger(__name__)


def prepare_topics(settings: Settings, needed: Collection[str] = ()) -> dict[str, str]:
    """Create missing topics if the settings allow it, check existing ones, and return the ids of all by name.

    A topic that is created again gets another id. If each user has a request topic, the existing ones are used instead
    of the shared request topic.
    """
    admin = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
    cluster = admin.layout()
    specs = [spec for spec in topic_specs(settings) if not needed or spec.name in needed]
    missing = [spec for spec in specs if spec.name not in cluster.topics]
    if missing and not settings.topics.create:
        raise ClusterError(
            f"missing topics: {', '.join(spec.name for spec in missing)}; create them, set topics.create=true, "
            "or let this principal describe them"
        )
    admin.create([replicated(spec, settings.topics.replication_factor, cluster.size) for spec in missing])
    names = [spec.name for spec in specs]
    if not needed or settings.topics.requests in needed:
        names += user_topic_names(cluster.topics, settings)
    topics = admin.describe(names)
    for problem in problems(topics, settings):
        raise ClusterError(problem)
    for warning in durability_warnings(topics, cluster.size):
        _log.warning("%s", warning)
    return {name: topic.topic_id for name, topic in topics.items()}
