"""The creation of missing topics, and the requirements of existing ones."""

import pytest

from quota.kafka.topics import preparation
from quota.kafka.topics.preparation import (
    cleanup_warnings,
    compaction_warnings,
    durability_warnings,
    faults,
    prepare_topics,
    replicated,
)
from quota.kafka.topics.specs import MAX_ANSWER_BYTES, TopicSpec, topic_specs
from quota.kafka.topics.topic_admin import ClusterLayout
from quota.settings import load_settings
from tests.support.described_topics import described_topic


@pytest.fixture
def settings():
    return load_settings([], environment={}, with_default_file=False)


def topic(name, partitions=1, replicas=1, *, configs):
    return described_topic(name, *[(1, range(replicas), range(replicas))] * partitions, configs=configs)


def described(settings, name, partitions=None, **configs):
    """The topics as they are created, one of them with other partitions or configs."""
    topics = {}
    for spec in topic_specs(settings):
        own = {config.replace("_", "."): value for config, value in configs.items()} if spec.name == name else {}
        count = partitions if partitions is not None and spec.name == name else spec.partitions
        topics[spec.name] = topic(spec.name, count, configs={**spec.configs, **own})
    return topics


def test_topics_as_created_by_the_jobs_are_valid(settings):
    topics = described(settings, "")
    warnings = [*cleanup_warnings(topics, settings), *compaction_warnings(topics, settings)]
    assert [*faults(topics, settings), *warnings] == []


@pytest.mark.parametrize("part", ["requests", "quotas"])
def test_requests_and_quotas_must_be_stamped_by_the_broker(settings, part):
    name = getattr(settings.topics, part)
    topics = described(settings, name, message_timestamp_type="CreateTime")
    (fault,) = faults(topics, settings)
    assert fault.startswith(f"topic {name} is stamped by producers")


@pytest.mark.parametrize("part", ["decisions", "dead_letters", "results"])
def test_the_largest_decision_has_to_fit_its_topic(settings, part):
    name, needed = getattr(settings.topics, part), MAX_ANSWER_BYTES
    assert list(faults(described(settings, name, max_message_bytes=str(needed)), settings)) == []
    (fault,) = faults(described(settings, name, max_message_bytes=str(needed - 1)), settings)
    assert f"set max.message.bytes={needed} on the topic" in fault


def test_the_quota_topic_must_have_one_partition(settings):
    (fault,) = faults(described(settings, settings.topics.quotas, partitions=2), settings)
    assert "has 2 partitions, so its changes have no total order" in fault


@pytest.mark.parametrize("part", ["quotas", "positions", "requests", "decisions", "dead_letters", "results"])
@pytest.mark.parametrize("policy", ["delete", "compact,delete", "compact"])
def test_a_topic_that_loses_what_is_still_needed_causes_a_warning(settings, part, policy):
    """What has a state is compacted and never deleted by age, and where each record counts, none is compacted."""
    name, right = getattr(settings.topics, part), "compact" if part in {"quotas", "positions"} else "delete"
    topics = described(settings, name, cleanup_policy=policy, retention_ms="604800000", retention_bytes="-1")
    assert list(faults(topics, settings)) == []
    assert [line.split(", ")[0] + line.rpartition(";")[2] for line in cleanup_warnings(topics, settings)] == (
        [] if policy == right else [f"topic {name}: cleanup.policy={policy} set cleanup.policy={right} on the topic"]
    )


def test_a_quota_topic_without_limits_of_age_and_size_loses_nothing(settings):
    topics = described(
        settings, settings.topics.quotas, cleanup_policy="compact,delete", retention_ms="-1", retention_bytes="-1"
    )
    assert list(cleanup_warnings(topics, settings)) == []


def test_a_quota_topic_that_is_compacted_early_causes_a_warning(settings):
    (line,) = compaction_warnings(described(settings, settings.topics.quotas, min_compaction_lag_ms="1000"), settings)
    assert "may be compacted after 1000 ms" in line


def test_a_topic_of_a_user_is_checked_like_the_shared_one():
    by_user = load_settings(["topics.identity=topic"], environment={}, with_default_file=False)
    name = f"{by_user.topics.requests}.alice"
    own = topic(name, configs={"message.timestamp.type": "CreateTime"})
    (fault,) = faults({name: own}, by_user)
    assert fault.startswith(f"topic {name} is stamped by producers")


SAFE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


@pytest.mark.parametrize(
    ("brokers", "factor", "in_sync"),
    [(1, -1, None), (2, -1, None), (3, 3, "2"), (9, 3, "2")],
)
def test_a_new_topic_survives_the_loss_of_a_broker_where_there_are_three(brokers, factor, in_sync):
    made = replicated(TopicSpec("t", 2, {"cleanup.policy": "compact"}), brokers)
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
            ["replication.factor=1, so that records are lost", "set replication.factor=3"],
        ),
        (3, 2, {"min.insync.replicas": "1"}, ["replication.factor=2, so that records", "set replication.factor=3"]),
        (3, 2, {"min.insync.replicas": "2"}, ["replication.factor=2, so that records", "set replication.factor=3"]),
        (3, 3, {"min.insync.replicas": "3"}, ["no record can be written when a broker", "min.insync.replicas=2"]),
        (5, 5, {"min.insync.replicas": "6"}, ["no record can be written when a broker", "min.insync.replicas=4"]),
        (2, 2, {"min.insync.replicas": "2"}, ["no record can be written when a broker", "min.insync.replicas=1"]),
        (3, 3, {"min.insync.replicas": "1"}, ["min.insync.replicas=1, so", "set min.insync.replicas=2"]),
        (3, 3, {"unclean.leader.election.enable": "true"}, ["set unclean.leader.election.enable=false"]),
    ],
)
def test_a_topic_less_durable_than_the_cluster_allows_is_reported_with_advice(brokers, replicas, configs, phrases):
    (warning,) = durability_warnings({"t": topic("t", 2, replicas, configs=SAFE | configs)}, brokers)
    assert warning.startswith("topic t: ")
    assert "\n" not in warning
    assert [phrase in warning for phrase in phrases] == [True] * len(phrases)


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
    assert list(durability_warnings({"t": topic("t", 2, replicas, configs=SAFE | configs)}, brokers)) == []


def test_topics_with_the_same_weakness_share_a_line_that_stays_short():
    topics = {f"t{number}": topic(f"t{number}", configs=SAFE) for number in range(1000)}
    (warning,) = durability_warnings(topics, 3)
    assert warning.startswith("topics t0, t1, t10, t100, t101 and 995 more: replication.factor=1")


class Cluster:
    """A cluster of three brokers, whose quota topic has one replica; the other topics do not exist."""

    def __init__(self, settings):
        self.quotas = settings.topics.quotas
        self.created = []

    def __call__(self, *_):
        return self

    def layout(self):
        return ClusterLayout("id", (1, 2, 3), {self.quotas: topic(self.quotas, configs={})})

    def create(self, specs):
        self.created += specs

    def describe(self, names):
        stamped = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "9999999"}
        configs = SAFE | stamped | {"min.compaction.lag.ms": "604800000"}
        return {name: topic(name, 1, 1 if name == self.quotas else 3, configs=configs) for name in names}


def test_a_start_creates_replicated_topics_and_warns_about_others(monkeypatch, caplog):
    settings = load_settings([], environment={}, with_default_file=False)
    cluster = Cluster(settings)
    monkeypatch.setattr(preparation, "TopicAdmin", cluster)
    topics = prepare_topics(settings)
    assert {(spec.replication_factor, spec.configs["min.insync.replicas"]) for spec in cluster.created} == {(3, "2")}
    assert len(cluster.created) == 5
    assert topics.keys() == {spec.name for spec in topic_specs(settings)}
    assert [record.levelname for record in caplog.records if record.levelname != "INFO"] == ["WARNING"]
    assert f"topic {settings.topics.quotas}: replication.factor=1" in caplog.text


def test_partitions_without_a_leader_or_a_replica_are_counted():
    made = described_topic("t", (1, (1, 2, 3), (1,)), (-1, (2, 3, 1), ()), (3, (3, 1), (3, 1)))

    assert (made.replication_factor, made.leaderless, made.under_replicated) == (2, 1, 2)


def test_an_unavailable_broker_counts_if_it_has_replicas():
    """Topics that are created meanwhile get as many replicas as the others."""
    cluster = ClusterLayout("id", (1, 2), {"t": described_topic("t", (1, (1, 2, 3), (1, 2)))})

    assert (cluster.brokers, cluster.size) == ((1, 2), 3)
