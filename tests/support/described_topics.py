"""Topics as a cluster describes them."""

from collections.abc import Collection, Mapping

from quota.kafka.topics.topic_admin import Replicas, Topic


def described_topic(
    name: str, *partitions: tuple[int, Collection[int], Collection[int]], configs: Mapping[str, str] | None = None
) -> Topic:
    """Return a topic of partitions with these leaders, replicas and replicas in sync."""
    described = (
        Replicas(number, leader, tuple(replicas), tuple(in_sync))
        for number, (leader, replicas, in_sync) in enumerate(partitions)
    )
    return Topic(name, tuple(described), "id", configs or {})
