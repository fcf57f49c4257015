"""An admin client for the topics of a deployment: lists, creates, describes and configures them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from quota.kafka.clients import client_config, cluster_errors, retry
from quota.kafka.timing import Deadline
from quota.kafka.topics.layouts import ClusterLayout, cluster_layout
from quota.kafka.topics.specs import TopicSpec
from quota.settings import Settings

_log = logging.getLogger(__name__)

_NOT_AUTHORIZED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """A topic on the cluster."""

    topic_id: str
    """The id that the cluster gave the topic; a topic that is deleted and created again gets another."""
    partitions: int
    configs: dict[str, str]
    replication_factor: int = 1
    """The smallest number of replicas of a partition."""


class TopicAdmin:
    """The topics of the cluster that decides."""

    def __init__(self, settings: Settings) -> None:
        """Create the client, which connects when it is used."""
        self._timeout = settings.kafka.timeout_seconds
        self._config = client_config(settings.kafka.connection)
        self._reach = f"reach Kafka at {settings.kafka.bootstrap_servers}"
        with cluster_errors(self._reach, self._config):
            self._client = AdminClient(self._config)

    def layout(self) -> ClusterLayout:
        """Return the brokers and all topics that this principal may describe."""
        return cluster_layout(self._metadata())

    def names(self) -> list[str]:
        """Return the names of all topics that this principal may describe."""
        return list(self._metadata().topics)

    def _metadata(self) -> ClusterMetadata:
        with cluster_errors(self._reach, self._config):
            return self._client.list_topics(timeout=self._timeout)

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create topics, unless another program creates them at the same time."""
        if not specs:
            return
        new = [
            NewTopic(spec.name, spec.partitions, spec.replication_factor, config=dict(spec.configs)) for spec in specs
        ]
        for name, future in self._client.create_topics(new, operation_timeout=self._timeout).items():
            try:
                future.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_ALREADY_EXISTS:
                    continue
                hint = "; if it exists, this principal may not even describe it" if code in _NOT_AUTHORIZED else ""
                with cluster_errors(f"create topic {name}", self._config, hint):
                    raise
        _log.info("created topics %s", ", ".join(spec.name for spec in specs))

    def describe(self, names: Sequence[str]) -> dict[str, DescribedTopic]:
        """Return topics as the cluster has them. A broker may not know a new topic for some ms, so this retries."""
        if not names:
            return {}
        unknown = {KafkaError.UNKNOWN_TOPIC_OR_PART}
        with cluster_errors(f"describe the topics {', '.join(names)}", self._config):
            topics = retry(lambda: self._descriptions(names), Deadline(self._timeout), unknown)
            configs = retry(lambda: self._configs(names), Deadline(self._timeout), unknown)
        return {
            name: DescribedTopic(
                str(topic.topic_id),
                len(topic.partitions),
                configs[name],
                min((len(partition.replicas) for partition in topic.partitions), default=1),
            )
            for name, topic in topics.items()
        }

    def configure(self, specs: Sequence[TopicSpec]) -> None:
        """Set the configs of existing topics, leaving their other configs alone."""
        if not specs:
            return
        resources = [
            ConfigResource(ResourceType.TOPIC, spec.name, incremental_configs=_config_entries(spec)) for spec in specs
        ]
        futures = self._client.incremental_alter_configs(resources, request_timeout=self._timeout)
        for resource, future in futures.items():
            with cluster_errors(f"alter topic {resource.name}", self._config):
                future.result()

    def _descriptions(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        futures = self._client.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout)
        return {name: future.result() for name, future in futures.items()}

    def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._client.describe_configs(resources, request_timeout=self._timeout)
        return {
            resource.name: {name: entry.value for name, entry in future.result().items()}
            for resource, future in futures.items()
        }


def _config_entries(spec: TopicSpec) -> list[ConfigEntry]:
    return [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in spec.configs.items()
    ]
