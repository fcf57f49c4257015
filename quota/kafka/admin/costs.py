"""The mutations, with their costs, that the arguments of confluent-kafka's methods describe."""

from collections.abc import Mapping

from confluent_kafka.admin import NewPartitions, NewTopic

from quota.records.request import TopicMutation

_CLUSTER_DEFAULT = -1


def has_default_partitions(topic: NewTopic) -> bool:
    """Return whether a topic gets the cluster's default number of partitions."""
    return topic.num_partitions == _CLUSTER_DEFAULT and not topic.replica_assignment


def creation(topic: NewTopic, default_partitions: int) -> TopicMutation:
    """Return the creation of a topic, which costs its partitions."""
    assignments = topic.replica_assignment or None
    partitions = default_partitions if has_default_partitions(topic) else topic.num_partitions
    return TopicMutation(
        topic.topic,
        partitions if assignments is None else len(assignments),
        replication_factor=None if topic.replication_factor == _CLUSTER_DEFAULT else topic.replication_factor,
        assignments=assignments,
        configs={str(name): str(value) for name, value in topic.config.items()} if topic.config else None,
    )


def growth(topic: NewPartitions, current: Mapping[str, int]) -> TopicMutation:
    """Return the growth of a topic, which costs the partitions to add."""
    return TopicMutation(
        topic.topic,
        max(0, topic.new_total_count - current.get(topic.topic, 0)),
        count=topic.new_total_count,
        assignments=topic.replica_assignment or None,
    )


def deletion(name: str, current: Mapping[str, int]) -> TopicMutation:
    """Return the deletion of a topic, which costs its partitions; the cluster reports a topic that does not exist."""
    return TopicMutation(name, current.get(name, 0))
