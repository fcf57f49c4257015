"""The request topics of single users (`topics.identity=topic`)."""

import logging
from collections.abc import Sequence

from quota.kafka.topics.checks import problems
from quota.kafka.topics.durability import replicated
from quota.kafka.topics.specs import requests_spec, user_topic_names
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings

_log = logging.getLogger(__name__)


class UserTopics:
    """The request topics of users on a cluster."""

    def __init__(self, settings: Settings) -> None:
        """Create a client, which connects when it is used."""
        self._settings = settings
        self._admin = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._logged: set[str] = set()

    def prepare(self, users: Sequence[str]) -> dict[str, str]:
        """Create the topics of users, set the configs of existing ones, and return the topic of each user."""
        topics = {user: self._settings.topics.requests_of(user) for user in users}
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
        topics = self._admin.describe(user_topic_names(self._admin.layout().topics, self._settings))
        for problem in problems(topics, self._settings):
            if problem not in self._logged:
                self._logged.add(problem)
                _log.warning("%s", problem)
        return {name: topic.topic_id for name, topic in topics.items()}
