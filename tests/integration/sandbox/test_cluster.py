"""`broker --nodes 3`, as a user runs it, and a quota change whose replicas do not respond on these nodes."""

import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from jobs.sandbox import cluster as nodes
from jobs.sandbox.broker import with_plaintext_cluster
from quota.kafka.quotas.log import KafkaQuotas
from quota.kafka.timing import now_ms
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.records.entity import QuotaEntity
from quota.settings.connection import Connection
from tests.support.clients import QUIET
from tests.support.programs import child_processes, command_line, command_words, paused, process_state, run
from tests.support.waiting import until

ANN = QuotaEntity("ann")
PAUSE_SECONDS = 6
"""Longer than a replica may take to respond."""
PATIENT = {
    "jobs.sandbox.cluster._PROPERTIES": nodes._PROPERTIES  # noqa: SLF001
    + "broker.session.timeout.ms=60000\nreplica.lag.time.max.ms=60000\n"
}
"""A paused node stays in sync for a minute: by default, nobody waits for its replica after nine seconds."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes, which stop at one Ctrl-C."""
    options = ("--nodes", "3", "--port", "0", "--data", str(tmp_path_factory.mktemp("brokers") / "data"))
    command = command_line("broker", *options, constants=PATIENT)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            ready, address = process.stdout.readline().split()
            assert ready == "ready"
            processes = child_processes(process.pid)
            yield SimpleNamespace(address=address, processes=processes)
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    until(lambda: all(process_state(pid) in {"Z", "X", None} for pid in processes))


@pytest.mark.timeout(300)
def test_three_nodes_hold_each_topic_three_times(cluster):
    """Two of three replicas must be in sync by default, including the topics of groups and transactions."""
    layout = TopicAdmin(Connection(cluster.address), 30).layout()
    configs = _broker_configs(cluster.address)
    assert (len(cluster.address.split(",")), len(cluster.processes)) == (3, 3)
    own = {name: topic.replication_factor for name, topic in layout.topics.items() if not name.startswith("__")}
    assert own == dict.fromkeys(
        (f"mutation-{name}" for name in ("requests", "decisions", "dead-letters", "quotas", "results", "positions")), 3
    )
    assert (configs["default.replication.factor"], configs["min.insync.replicas"]) == ("3", "2")
    assert configs["offsets.topic.replication.factor"] == "3"
    assert (configs["transaction.state.log.replication.factor"], configs["transaction.state.log.min.isr"]) == ("3", "2")


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
    follower = _node(cluster, layout.topics[topic].partitions[0].leader % 3 + 1)
    with ThreadPoolExecutor(1) as pool:
        with paused(follower):
            producer.produce(topic, b'{"entity":{"user":"ann"},"controller_mutation_rate":1.0}', b'{"user":"ann"}')
            assert producer.flush(30) == 0
            stamped = now_ms()
            decided = pool.submit(quotas.read_until, stamped)
            with pytest.raises(TimeoutError):
                decided.result(PAUSE_SECONDS)
        assert decided.result(60).timeline.latest(ANN, stamped).quota.rate == 1.0


def test_two_nodes_are_rejected_since_they_stop_together():
    done = run("broker", "--nodes", "2", "--port", "0")
    assert done.returncode == 2
    assert "two nodes stop when one of them fails; give 1, or 3 to 9" in done.stderr


def _node(cluster, number):
    """Return the process of a node."""
    (process,) = (pid for pid in cluster.processes if any(f"/node-{number}/" in word for word in command_words(pid)))
    return process


def _broker_configs(address):
    admin = AdminClient({**QUIET, "bootstrap.servers": address})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return {name: entry.value for name, entry in future.result(30).items()}
