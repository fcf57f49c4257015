"""Topics by which users make requests, each its own: making them right, and looking after them."""

import logging
from collections.abc import Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from quota.errors import ClusterError
from quota.kafka.clients import reason
from quota.kafka.topics.specs import (
    TopicSpec,
    admin_of,
    create_topics,
    describe,
    existing_topics,
    ids_of,
    problems,
    requests_spec,
    user_topics,
)
from quota.settings.model import Settings

_log = logging.getLogger(__name__)


class UserTopics:
    """The topics of users on a cluster, where `topics.identity` is topic."""

    def __init__(self, settings: Settings) -> None:
        """Connect when it is needed."""
        self._settings = settings
        self._admin = admin_of(settings)
        self._told: set[str] = set()

    def prepare(self, users: Sequence[str]) -> dict[str, str]:
        """Make the topics of users, or give those that are there what they need.

        Returns:
            The topic of each user.

        Raises:
            BadInput: a user's name cannot be part of a topic's.
            ClusterError: the cluster does not take it: two topics whose names differ in '.' and '_' alone, say.
        """
        settings = self._settings
        topics = {user: settings.topics.requests_of(user) for user in users}
        specs = [requests_spec(settings, topic) for topic in topics.values()]
        existing = existing_topics(self._admin, settings)
        create_topics(self._admin, [spec for spec in specs if spec.name not in existing], settings)
        self._configure([spec for spec in specs if spec.name in existing])
        return topics

    def look(self) -> dict[str, str]:
        """The ids of those that are there now; what is wrong with one is logged once: its requests are dead letters.

        Raises:
            ClusterError: the cluster does not answer.
        """
        settings = self._settings
        names = user_topics(existing_topics(self._admin, settings), settings)
        described, configs = describe(self._admin, names, settings.kafka.timeout_seconds)
        for problem in problems(described, configs, settings):
            if problem not in self._told:
                self._told.add(problem)
                _log.warning("%s", problem)
        return ids_of(described)

    def _configure(self, specs: Sequence[TopicSpec]) -> None:
        resources = [
            ConfigResource(
                ResourceType.TOPIC,
                spec.name,
                incremental_configs=[
                    ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                    for name, value in spec.config.items()
                ],
            )
            for spec in specs
        ]
        if not resources:
            return
        timeout = self._settings.kafka.timeout_seconds
        for resource, future in self._admin.incremental_alter_configs(resources, request_timeout=timeout).items():
            try:
                future.result()
            except KafkaException as error:
                raise ClusterError(f"cannot alter topic {resource.name}: {reason(error)}") from None
