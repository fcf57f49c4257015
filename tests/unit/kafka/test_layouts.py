"""What a layout tells of replicas."""

from quota.kafka.topics.layouts import PartitionLayout, TopicLayout


def layout(*partitions):
    return TopicLayout("t", tuple(PartitionLayout(number, *each) for number, each in enumerate(partitions)))


def test_a_topic_with_all_replicas_in_sync_has_nothing_to_tell():
    found = layout((1, (1, 2), (2, 1)), (2, (2, 1), (1, 2)))

    assert (found.replication_factor, found.leaderless, found.under_replicated) == (2, 0, 0)


def test_partitions_without_a_leader_or_a_replica_are_counted():
    found = layout((1, (1, 2, 3), (1,)), (None, (2, 3, 1), ()), (3, (3, 1, 2), (3, 1, 2)))

    assert (found.replication_factor, found.leaderless, found.under_replicated) == (3, 1, 2)
