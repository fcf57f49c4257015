"""Layouts of topics, as a cluster's metadata describes them."""

from collections.abc import Collection

from confluent_kafka.admin import PartitionMetadata

from quota.kafka.topics.layouts import TopicLayout


def topic_layout(name: str, *partitions: tuple[int, Collection[int], Collection[int]]) -> TopicLayout:
    """Return a topic of partitions with these leaders, replicas and replicas in sync."""
    described = []
    for number, (leader, replicas, in_sync) in enumerate(partitions):
        partition = PartitionMetadata()
        partition.id, partition.leader = number, leader
        partition.replicas, partition.isrs = [*replicas], [*in_sync]
        described.append(partition)
    return TopicLayout(name, tuple(described))
