"""From confluent-kafka's own types to what a request says of a topic, its cost included."""

from collections.abc import Mapping

import msgspec
from confluent_kafka.admin import NewPartitions, NewTopic

from quota.records.request import TopicMutation

_DEFAULT = -1
"""What stands for the cluster's default."""


def takes_default(topic: NewTopic) -> bool:
    """Whether the cluster says how many partitions a topic gets."""
    return topic.num_partitions == _DEFAULT and not topic.replica_assignment


def created(topic: NewTopic, default_partitions: int) -> TopicMutation:
    """A topic to create: it costs its partitions."""
    assignments = topic.replica_assignment or msgspec.UNSET
    partitions = default_partitions if takes_default(topic) else topic.num_partitions
    return TopicMutation(
        topic.topic,
        partitions if assignments is msgspec.UNSET else len(assignments),
        replication_factor=msgspec.UNSET if topic.replication_factor == _DEFAULT else topic.replication_factor,
        assignments=assignments,
        configs={str(name): str(value) for name, value in topic.config.items()} if topic.config else msgspec.UNSET,
    )


def grown(topic: NewPartitions, current: Mapping[str, int]) -> TopicMutation:
    """A topic to grow: it costs what it does not have yet."""
    return TopicMutation(
        topic.topic,
        max(0, topic.new_total_count - current.get(topic.topic, 0)),
        count=topic.new_total_count,
        assignments=topic.replica_assignment or msgspec.UNSET,
    )


def deleted(name: str, current: Mapping[str, int]) -> TopicMutation:
    """A topic to delete: it costs what it has; one that is not there costs nothing, and the cluster says so."""
    return TopicMutation(name, current.get(name, 0))
