"""Topics on a cluster of three brokers, and a quota change whose replicas do not respond."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from jobs.sandbox.broker import with_plaintext_cluster
from quota.kafka.quotas.log import KafkaQuotas
from quota.kafka.timing import now_ms
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.records.entity import QuotaEntity
from quota.settings.connection import Connection
from tests.support.clients import QUIET
from tests.support.cluster import Cluster
from tests.support.programs import paused

ANN = QuotaEntity("ann")
PAUSE_SECONDS = 6
"""Longer than a replica may take to respond."""
PATIENT = "broker.session.timeout.ms=60000\nreplica.lag.time.max.ms=60000\n"
"""A paused node stays in sync for a minute: by default, nobody waits for its replica after nine seconds."""


@pytest.fixture(scope="module")
def cluster(base_settings, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("brokers"), base_settings.broker.jars, PATIENT) as cluster:
        prepare_topics(with_plaintext_cluster(base_settings, cluster.address))
        cluster.wait_until_in_sync()
        yield cluster


def test_on_three_brokers_each_topic_is_held_three_times(cluster):
    topics = TopicAdmin(Connection(cluster.address), 30).layout().topics
    own = {name: topic.replication_factor for name, topic in topics.items() if not name.startswith("__")}
    assert own == dict.fromkeys(
        (f"mutation-{name}" for name in ("requests", "decisions", "dead-letters", "quotas", "results", "positions")), 3
    )


def test_a_request_is_not_decided_before_a_change_that_waits_for_a_replica(cluster, base_settings):
    """The leader has stamped the change, and shows it once the replica responds again: its requests wait for it."""
    settings = with_plaintext_cluster(base_settings, cluster.address)
    topic = settings.topics.quotas
    quotas = KafkaQuotas.from_settings(settings, 60)
    assert quotas.read_until(now_ms()).timeline.latest(ANN, now_ms()) is None

    producer = Producer({**QUIET, "bootstrap.servers": cluster.address, "acks": "1"})
    producer.list_topics(topic, 30)  # it must not ask the stopped node who leads, or still have to connect
    producer.produce(topic, b'{"entity":{"user":"bob"},"controller_mutation_rate":1.0}', b'{"user":"bob"}')
    assert producer.flush(30) == 0
    layout = TopicAdmin(Connection(cluster.address), 30).layout()
    follower = cluster.nodes[layout.topics[topic].partitions[0].leader % 3]
    with ThreadPoolExecutor(1) as pool:
        with paused(follower.pid):
            producer.produce(topic, b'{"entity":{"user":"ann"},"controller_mutation_rate":1.0}', b'{"user":"ann"}')
            assert producer.flush(30) == 0
            stamped = now_ms()
            decided = pool.submit(quotas.read_until, stamped)
            with pytest.raises(TimeoutError):
                decided.result(PAUSE_SECONDS)
        assert decided.result(60).timeline.latest(ANN, stamped).quota.rate == 1.0
