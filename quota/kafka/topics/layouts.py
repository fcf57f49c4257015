"""The layout of a cluster: its brokers, its topics, and the replicas of each partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from confluent_kafka.admin import ClusterMetadata, PartitionMetadata, TopicMetadata


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The partitions of a topic, in their order."""

    name: str
    partitions: tuple[PartitionMetadata, ...]
    """Their leader is below 0 while no replica leads them: they can be neither read nor written then."""

    @property
    def replication_factor(self) -> int:
        """The largest number of replicas of a partition."""
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def leaderless(self) -> int:
        """The number of partitions without a leader."""
        return sum(partition.leader < 0 for partition in self.partitions)

    @property
    def under_replicated(self) -> int:
        """The number of partitions with a replica that lags behind or is offline."""
        return sum(len(partition.isrs) < len(partition.replicas) for partition in self.partitions)


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
        return len({*self.brokers, *(broker for partition in partitions for broker in partition.replicas)})


def cluster_layout(metadata: ClusterMetadata) -> ClusterLayout:
    """Return the layout that a cluster's metadata describes."""
    topics = {name: _layout(name, topic) for name, topic in sorted(metadata.topics.items()) if topic.error is None}
    return ClusterLayout(str(metadata.cluster_id), tuple(sorted(metadata.brokers)), topics)


def _layout(name: str, topic: TopicMetadata) -> TopicLayout:
    return TopicLayout(name, tuple(topic.partitions[number] for number in sorted(topic.partitions)))
