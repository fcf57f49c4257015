"""A quota change whose replicas hang, on a real cluster of three brokers."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from jobs.sandbox.broker import with_plaintext_cluster
from jobs.sandbox.cluster import embedded_cluster
from quota.kafka.quotas.log import KafkaQuotas
from quota.records.entity import QuotaEntity
from tests.support.clients import QUIET

ANN = QuotaEntity("ann")


@pytest.mark.timeout(300)
def test_a_request_is_not_decided_before_a_change_that_waits_for_a_replica(base_settings, tmp_path):
    """The leader has stamped the change, and shows it once the replica answers again: its requests wait for it."""
    with embedded_cluster(base_settings, 3, 0, tmp_path / "brokers") as cluster, ThreadPoolExecutor(1) as pool:
        settings = with_plaintext_cluster(base_settings, cluster.address)
        topic = settings.topics.quotas
        quotas = KafkaQuotas.from_settings(settings, 60)
        assert quotas.read_until(_now()).timeline.latest(ANN, _now()) is None

        producer = Producer({**QUIET, "bootstrap.servers": cluster.address, "acks": "1"})
        follower = next(node for node in cluster.nodes if node != cluster.leader_of(topic))
        with cluster.paused(follower):
            producer.produce(topic, b'{"entity":{"user":"ann"},"controller_mutation_rate":1.0}', b'{"user":"ann"}')
            assert producer.flush(30) == 0
            stamped = _now()
            decided = pool.submit(quotas.read_until, stamped)
            with pytest.raises(TimeoutError):
                decided.result(6)  # longer than a replica may take to answer
        assert decided.result(60).timeline.latest(ANN, stamped).quota.rate == 1.0


def _now():
    return time.time_ns() // 1_000_000
