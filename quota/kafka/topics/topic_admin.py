"""An admin client for topics: lists, creates, describes and configures them."""

import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
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

from quota.kafka.clients import client_config, cluster_errors, reason, retry
from quota.kafka.kept_client import KeptClient
from quota.kafka.timing import Deadline
from quota.kafka.topics.layouts import ClusterLayout, cluster_layout
from quota.kafka.topics.specs import TopicSpec
from quota.records.quota_log import Cluster
from quota.settings.connection import Connection
from quota.settings.secrets import MASK

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
    """The topics of a cluster."""

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        """Create the client, which connects when it is used."""
        self._timeout = timeout_seconds
        self._connection = connection
        with self._errors(f"reach Kafka at {connection}"):
            self._kept = KeptClient(lambda: AdminClient(client_config(connection)))

    def layout(self) -> ClusterLayout:
        """Return the brokers and all topics that this principal may describe."""
        return cluster_layout(self._metadata())

    def names(self) -> list[str]:
        """Return the names of all topics that this principal may describe."""
        return list(self._metadata().topics)

    def ids(self, names: Collection[str]) -> dict[str, str]:
        """Return the ids of existing topics."""
        with self._errors("describe topics"):
            return {name: str(topic.topic_id) for name, topic in self._descriptions(names).items()}

    def configs(self, names: Collection[str]) -> tuple[dict[str, dict[str, str | None]], dict[str, str]]:
        """Return the configs of existing topics, sensitive ones masked, and why those of others cannot be read."""
        configs: dict[str, dict[str, str | None]] = {}
        rejected: dict[str, str] = {}
        with self._errors("describe the configs of topics"):
            futures = self._config_futures(names)
        for name, future in futures.items():
            try:
                entries = sorted(future.result().items())
                configs[name] = {config: MASK if entry.is_sensitive else entry.value for config, entry in entries}
            except KafkaException as error:
                rejected[name] = reason(error)
        return configs, rejected

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
                with self._errors(f"create topic {name}", hint):
                    raise
        _log.info("created topics %s", ", ".join(spec.name for spec in specs))

    def describe(self, names: Sequence[str]) -> dict[str, DescribedTopic]:
        """Return topics as the cluster has them. A broker may not know a new topic for some ms, so this retries."""
        unknown = {KafkaError.UNKNOWN_TOPIC_OR_PART}
        with self._errors(f"describe the topics {', '.join(names)}"):
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
            ConfigResource(ResourceType.TOPIC, spec.name, incremental_configs=_entries(spec.configs)) for spec in specs
        ]
        futures = self._client.incremental_alter_configs(resources, request_timeout=self._timeout)
        for resource, future in futures.items():
            with self._errors(f"alter topic {resource.name}"):
                future.result()

    @property
    def _client(self) -> AdminClient:
        return self._kept.client

    def _errors(self, action: str, hint: str = "") -> AbstractContextManager[None]:
        return cluster_errors(action, self._connection, hint)

    def _metadata(self) -> ClusterMetadata:
        with self._errors(f"reach Kafka at {self._connection}"), self._kept.use() as client:
            return client.list_topics(timeout=self._timeout)

    def _descriptions(self, names: Collection[str]) -> dict[str, TopicDescription]:
        if not names:
            return {}
        futures = self._client.describe_topics(TopicCollection(sorted(names)), request_timeout=self._timeout)
        return {name: future.result() for name, future in futures.items()}

    def _configs(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        return {
            topic: {name: entry.value or "" for name, entry in future.result().items()}
            for topic, future in self._config_futures(names).items()
        }

    def _config_futures(self, names: Collection[str]) -> dict[str, Future[dict[str, ConfigEntry]]]:
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(names)]
        futures = self._client.describe_configs(resources, request_timeout=self._timeout)
        return {resource.name: future for resource, future in futures.items()}


def read_cluster(connection: Connection, timeout_seconds: float) -> Cluster:
    """Read the topics of a cluster and the leaders of their partitions."""
    topics = TopicAdmin(connection, timeout_seconds).layout().topics
    return Cluster(
        {
            name: [None if partition.leader < 0 else partition.leader for partition in topic.partitions]
            for name, topic in topics.items()
        }
    )


def _entries(configs: Mapping[str, str]) -> list[ConfigEntry]:
    return [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
