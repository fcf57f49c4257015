"""The warnings about the replicas of a layout."""

from quota.kafka.topics.layouts import ClusterLayout, PartitionLayout, TopicLayout


def layout(*partitions):
    return TopicLayout("t", tuple(PartitionLayout(number, *each) for number, each in enumerate(partitions)))


def test_a_topic_with_all_replicas_in_sync_has_no_warnings():
    found = layout((1, (1, 2), (2, 1)), (2, (2, 1), (1, 2)))

    assert (found.replication_factor, found.leaderless, found.under_replicated) == (2, 0, 0)


def test_partitions_without_a_leader_or_a_replica_are_counted():
    found = layout((1, (1, 2, 3), (1,)), (None, (2, 3, 1), ()), (3, (3, 1, 2), (3, 1, 2)))

    assert (found.replication_factor, found.leaderless, found.under_replicated) == (3, 1, 2)


def test_an_unavailable_broker_counts_if_it_has_replicas():
    """Topics that are created meanwhile get as many replicas as the others."""
    found = ClusterLayout("id", (1, 2), {"t": layout((1, (1, 2, 3), (1, 2)))})

    assert (found.brokers, found.size) == ((1, 2), 3)
