"""The preparation of a deployment's topics before a job starts."""

import logging
from collections.abc import Collection, Sequence

from quota.admission.identity import request_topic
from quota.errors import ClusterError
from quota.kafka.topics.checks import durability_warnings, problems, replicated
from quota.kafka.topics.specs import requests_spec, topic_specs, user_topic_names
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


class UserTopics:
    """The request topics of single users on a cluster (`topics.identity=topic`)."""

    def __init__(self, settings: Settings) -> None:
        """Create a client, which connects when it is used."""
        self._settings = settings
        self._admin = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._logged: set[str] = set()

    def prepare(self, users: Sequence[str]) -> dict[str, str]:
        """Create the topics of users, set the configs of existing ones, and return the topic of each user."""
        topics = {user: request_topic(user, self._settings.topics) for user in users}
        specs = [requests_spec(self._settings, topic) for topic in topics.values()]
        cluster, factor = self._admin.layout(), self._settings.topics.replication_factor
        missing = [spec for spec in specs if spec.name not in cluster.topics]
        self._admin.create([replicated(spec, factor, cluster.size) for spec in missing])
        self._admin.configure([spec for spec in specs if spec.name in cluster.topics])
        return topics

    def check(self) -> dict[str, str]:
        """Check the existing topics and return their ids, by name.

        A problem is logged once; the requests in that topic become dead letters.
        """
        topics = self._admin.describe(user_topic_names(self._admin.names(), self._settings))
        for problem in problems(topics, self._settings):
            if problem not in self._logged:
                self._logged.add(problem)
                _log.warning("%s", problem)
        return {name: topic.topic_id for name, topic in topics.items()}
