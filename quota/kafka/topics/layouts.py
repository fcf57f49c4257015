"""The layout of a cluster: its brokers, its topics, and the replicas of each partition."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
    TopicMetadata,
)

from quota.kafka.clients import client_config, cluster_errors, reason
from quota.settings.connection import Connection
from quota.settings.secrets import MASK


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """A partition's leader and replicas, by their brokers' ids."""

    partition: int
    leader: int | None
    """None while no replica leads the partition, which can be neither read nor written then."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The partitions of a topic, in their order."""

    name: str
    partitions: tuple[PartitionLayout, ...]

    @property
    def replication_factor(self) -> int:
        """The largest number of replicas of a partition."""
        return max((len(each.replicas) for each in self.partitions), default=0)

    @property
    def leaderless(self) -> int:
        """The number of partitions without a leader."""
        return sum(each.leader is None for each in self.partitions)

    @property
    def under_replicated(self) -> int:
        """The number of partitions with a replica that lags behind or is offline."""
        return sum(len(each.in_sync) < len(each.replicas) for each in self.partitions)


@dataclass(frozen=True)
class ClusterLayout:
    """The brokers of a cluster, and its topics by name."""

    cluster_id: str
    brokers: tuple[int, ...]
    """The ids of those that run."""
    topics: Mapping[str, TopicLayout]

    @cached_property
    def size(self) -> int:
        """The number of brokers, including those that are down but have replicas."""
        partitions = (partition for topic in self.topics.values() for partition in topic.partitions)
        return len({*self.brokers, *(broker for each in partitions for broker in each.replicas)})


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A config of a topic."""

    value: str | None
    """Masked if it is sensitive."""
    is_own: bool
    """Whether the config is set on the topic itself, and does not follow the brokers' default."""


class LayoutReader:
    """A client that reads the layout and the configs of topics, and changes nothing."""

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        """Create the client, which connects when it is used."""
        self._timeout = timeout_seconds
        self._config = client_config(connection)
        self._connection = connection
        self._reach = f"reach Kafka at {connection}"
        with cluster_errors(self._reach, self._config, connection=self._connection):
            self._client = AdminClient(self._config)

    def cluster(self) -> ClusterLayout:
        """Return the brokers and all topics that this principal may describe."""
        with cluster_errors(self._reach, self._config, connection=self._connection):
            found = self._client.list_topics(timeout=self._timeout)
        return cluster_layout(found)

    def ids(self, names: Collection[str]) -> dict[str, str]:
        """Return the ids of existing topics."""
        if not names:
            return {}
        with cluster_errors("describe topics", self._config, connection=self._connection):
            futures = self._client.describe_topics(TopicCollection(sorted(names)), request_timeout=self._timeout)
            return {name: str(future.result().topic_id) for name, future in futures.items()}

    def configs(self, names: Collection[str]) -> tuple[dict[str, dict[str, TopicConfig]], dict[str, str]]:
        """Return the configs of existing topics, and why those of other topics cannot be read."""
        if not names:
            return {}, {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(names)]
        found: dict[str, dict[str, TopicConfig]] = {}
        refused: dict[str, str] = {}
        with cluster_errors("describe the configs of topics", self._config, connection=self._connection):
            futures = self._client.describe_configs(resources, request_timeout=self._timeout)
        for resource, future in futures.items():
            try:
                found[resource.name] = {name: _config(entry) for name, entry in sorted(future.result().items())}
            except KafkaException as error:
                refused[resource.name] = reason(error)
        return found, refused


def cluster_layout(found: ClusterMetadata) -> ClusterLayout:
    """Return the layout that a cluster's metadata describes."""
    topics = {name: _layout(name, topic) for name, topic in sorted(found.topics.items()) if topic.error is None}
    return ClusterLayout(str(found.cluster_id), tuple(sorted(found.brokers)), topics)


def _layout(name: str, topic: TopicMetadata) -> TopicLayout:
    partitions = (topic.partitions[number] for number in sorted(topic.partitions))
    return TopicLayout(
        name,
        tuple(
            PartitionLayout(each.id, each.leader if each.leader >= 0 else None, tuple(each.replicas), tuple(each.isrs))
            for each in partitions
        ),
    )


def _config(entry: ConfigEntry) -> TopicConfig:
    own = ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    return TopicConfig(MASK if entry.is_sensitive else entry.value, own)
