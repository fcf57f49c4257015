"""Described topics, and what changes of them cost."""

import pytest

from jobs.cli.overview.topic_costs import Charged, described_topic
from jobs.cli.overview.topic_text import print_described
from quota.kafka.topics.layouts import PartitionLayout, TopicConfig, TopicLayout
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from schemas.documents.described_topics import ChargedQuota, DescribedTopics

CONFIGS = {"retention.ms": TopicConfig("1000", is_own=True), "segment.bytes": TopicConfig("5", is_own=False)}


def layout(partitions):
    return TopicLayout("orders", tuple(PartitionLayout(number, 1, (1, 2), (1,)) for number in range(partitions)))


def charged(rate, burst, **options):
    document = ChargedQuota("ann", "app", False, QuotaEntity("ann"), rate, burst, None, False, {"user": "ann"})
    return Charged(document, Quota(rate, **options), burst)


UNLIMITED = Charged(ChargedQuota("ann", "app", False, None, None, None, None, False, None), None, 0.0)


@pytest.mark.parametrize(
    ("partitions", "quota", "wait_ms"),
    [
        (80, charged(5.0, 500.0), 0),
        (560, charged(5.0, 500.0), 12_000),  # K = 500 - 560 = -60, and 60 / 5 = 12 s
        (560, charged(5.0, 500.0, max_debt_ms=1000), 1000),
        (560, UNLIMITED, None),
        (560, None, None),
    ],
)
def test_a_deletion_costs_its_partitions_and_may_leave_a_debt(partitions, quota, wait_ms):
    costs = described_topic(layout(partitions), "id", CONFIGS, quota).costs

    assert (costs.growth_per_partition, costs.deletion, costs.wait_after_deletion_ms) == (1, partitions, wait_ms)


def test_only_configs_of_the_topic_itself_are_described():
    assert described_topic(layout(1), "id", CONFIGS, None).configs == {"retention.ms": "1000"}
    assert described_topic(layout(1), "id", None, None).configs is None


def test_a_topic_is_described_with_the_quota_that_is_charged(capsys):
    quota = charged(0.5, 5.5)
    topics = [described_topic(layout(2), "id-1", CONFIGS, quota), described_topic(layout(9), "id-2", {}, quota)]

    print_described(DescribedTopics(quota.document, topics), all_partitions=True)

    printed = capsys.readouterr().out.split("\n\n")
    assert printed[0] == (
        "Charged:      user 'ann' with client-id 'app': 0.5 mutations/s set for\n"
        "              user-principal 'ann', burst 5.5, bucket of user 'ann', shared by\n"
        "              all their client-ids"
    )
    assert printed[1].splitlines() == [
        "Topic:        orders",
        "Id:           id-1",
        "Partitions:   2, replication factor 2",
        "Configs:      retention.ms=1000",
        "To grow it:   1 mutation for each partition that is added",
        "To delete it: 2 mutations: a full bucket covers them",
        "PARTITION  LEADER  REPLICAS  IN SYNC",
        "        0       1  1,2       1",
        "        1       1  1,2       1",
    ]
    assert "Configs:      the brokers' defaults" in printed[2]
    assert "To delete it: 9 mutations: a full bucket is in debt for 7 s afterwards" in printed[2]


def test_without_the_option_only_partitions_with_problems_are_printed(capsys):
    partitions = (
        PartitionLayout(0, 1, (1, 2), (2, 1)),
        PartitionLayout(1, None, (1, 2), (1, 2)),
        PartitionLayout(2, 2, (1, 2), (2,)),
    )
    topics = [described_topic(TopicLayout("orders", partitions), "id", {}, None)]

    print_described(DescribedTopics(None, topics), all_partitions=False)

    assert capsys.readouterr().out.splitlines()[-3:] == [
        "PARTITION  LEADER  REPLICAS  IN SYNC",
        "        1    none  1,2       1,2",
        "        2       2  1,2       2",
    ]


def test_the_partitions_of_a_healthy_topic_are_only_counted(capsys):
    partitions = tuple(PartitionLayout(number, 1, (1,), (1,)) for number in range(40))
    topics = [described_topic(TopicLayout("orders", partitions), "id", {}, None)]

    print_described(DescribedTopics(None, topics), all_partitions=False)

    printed = capsys.readouterr().out
    assert "Partitions:   40, replication factor 1\n" in printed
    assert "PARTITION " not in printed


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (UNLIMITED.document, "unlimited, no quota applies"),
        (
            ChargedQuota("ann", "app", True, None, None, None, None, False, None),
            "unlimited, the user is exempt (quota.exempt_users)",
        ),
    ],
)
def test_an_unlimited_client_is_reported(document, text, capsys):
    print_described(DescribedTopics(document, []), all_partitions=False)

    assert " ".join(capsys.readouterr().out.split()) == (f"Charged: user 'ann' with client-id 'app': {text} No topics.")
