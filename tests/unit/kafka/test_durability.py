"""The replication of a cluster's topics, and warnings about less durable ones."""

import pytest

from quota.kafka.topics import preparation
from quota.kafka.topics.durability import durability_warnings, replicated
from quota.kafka.topics.layouts import ClusterLayout, TopicLayout
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.specs import TopicSpec
from quota.kafka.topics.topic_admin import DescribedTopic
from quota.settings import load_settings

SAFE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


@pytest.mark.parametrize(
    ("setting", "brokers", "factor", "in_sync"),
    [
        (-1, 1, -1, None),
        (-1, 2, -1, None),
        (-1, 3, 3, "2"),
        (-1, 9, 3, "2"),
        (2, 3, 2, None),
        (1, 3, 1, None),
        (5, 5, 5, "2"),
    ],
)
def test_a_new_topic_survives_the_loss_of_a_broker_where_there_are_three(setting, brokers, factor, in_sync):
    made = replicated(TopicSpec("t", 2, {"cleanup.policy": "compact"}), setting, brokers)
    assert made.replication_factor == factor
    assert made.configs.get("min.insync.replicas") == in_sync
    assert made.configs["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("brokers", "replicas", "configs", "phrases"),
    [
        (
            3,
            1,
            {"min.insync.replicas": "1"},
            ["a single replica on a cluster of 3", "so that records are lost", "factor to 3"],
        ),
        (3, 2, {"min.insync.replicas": "1"}, ["two replicas on a cluster of 3 brokers", "replication factor to 3"]),
        (3, 2, {"min.insync.replicas": "2"}, ["two replicas on a cluster of 3 brokers", "replication factor to 3"]),
        (3, 3, {"min.insync.replicas": "3"}, ["no record can be written when a broker", "min.insync.replicas=2 on"]),
        (5, 5, {"min.insync.replicas": "6"}, ["no record can be written when a broker", "min.insync.replicas=4 on"]),
        (2, 2, {"min.insync.replicas": "2"}, ["no record can be written when a broker", "min.insync.replicas=1 on"]),
        (3, 3, {"min.insync.replicas": "1"}, ["min.insync.replicas=1, so", "set min.insync.replicas=2"]),
        (3, 3, {"unclean.leader.election.enable": "true"}, ["set unclean.leader.election.enable=false"]),
    ],
)
def test_a_topic_less_durable_than_the_cluster_allows_is_reported_with_advice(brokers, replicas, configs, phrases):
    (warning,) = durability_warnings({"t": DescribedTopic("id", 2, SAFE | configs, replicas)}, brokers)
    assert warning.startswith("topic t: ")
    assert "\n" not in warning
    assert [each in warning for each in phrases] == [True] * len(phrases)


@pytest.mark.parametrize(
    ("brokers", "replicas", "configs"),
    [
        (3, 3, {}),
        (1, 1, {"min.insync.replicas": "1"}),
        (2, 1, {}),
        (2, 2, {"min.insync.replicas": "1"}),
        (1, 1, {"unclean.leader.election.enable": "true"}),
        (5, 4, {"min.insync.replicas": "3"}),
    ],
)
def test_topics_as_durable_as_the_cluster_allows_cause_no_warning(brokers, replicas, configs):
    assert list(durability_warnings({"t": DescribedTopic("id", 2, SAFE | configs, replicas)}, brokers)) == []


def test_topics_with_the_same_weakness_share_a_line_that_stays_short():
    topics = {f"t{number}": DescribedTopic("id", 1, SAFE, 1) for number in range(1000)}
    (warning,) = durability_warnings(topics, 3)
    assert warning.startswith("topics t0, t1, t10, t100, t101 and 995 more: a single replica")


class Cluster:
    """A cluster of three brokers, whose quota topic has one replica; the other topics do not exist."""

    def __init__(self, settings):
        self.quotas = settings.topics.quotas
        self.created = []

    def __call__(self, *_):
        return self

    def layout(self):
        return ClusterLayout("id", (1, 2, 3), {self.quotas: TopicLayout(self.quotas, ())})

    def create(self, specs):
        self.created += specs

    def describe(self, names):
        stamped = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "9999999"}
        compacted = {"cleanup.policy": "compact", "min.compaction.lag.ms": "604800000"}
        configs = SAFE | stamped | compacted
        return {name: DescribedTopic("id", 1, configs, 1 if name == self.quotas else 3) for name in names}


def test_a_start_creates_replicated_topics_and_warns_about_others(monkeypatch, caplog):
    settings = load_settings([], environment={}, with_default_file=False)
    cluster = Cluster(settings)
    monkeypatch.setattr(preparation, "TopicAdmin", cluster)
    prepare_topics(settings)
    assert {(each.replication_factor, each.configs["min.insync.replicas"]) for each in cluster.created} == {(3, "2")}
    assert len(cluster.created) == 5
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert f"topic {settings.topics.quotas}: a single replica" in caplog.text
