"""The gateway in front of a cluster of three brokers, each by its own port and no way past it; and a share group."""

import subprocess
import uuid
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from jobs.sandbox.broker import HOST
from tests.support.checkout import CHECKOUT
from tests.support.cluster import Cluster
from tests.support.deployment import prepared_deployment
from tests.support.gateway import protocol, running_gateway, wire_client
from tests.support.programs import JVM_OPTIONS
from tests.support.topics import QUIET, admin_of
from tests.support.waiting import until
from tests.support.wire.requests import metadata

_PARTITIONS = 6
_RECORDS = 60


@pytest.fixture(scope="module")
def cluster(base_settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, base_settings.broker.jars) as running:
        admin = AdminClient({**QUIET, "bootstrap.servers": running.address})
        admin.create_topics([NewTopic("spread", _PARTITIONS, 1)])["spread"].result(30)
        yield running


@pytest.fixture
def nodes(cluster):
    return cluster.nodes


@pytest.fixture
def settings(base_settings, nodes, tmp_path):
    """A deployment on the cluster."""
    return prepared_deployment(base_settings, nodes[0], "cluster", tmp_path)


def use_all_brokers(address):
    """Produce to all partitions, consume them, and ask each broker for its configs; return the brokers' addresses."""
    config = {**QUIET, "bootstrap.servers": address}
    admin = AdminClient(config)
    brokers = admin.list_topics(timeout=10).brokers
    for node in brokers:
        (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]).values()
        assert future.result(30)
    group = uuid.uuid4().hex
    producer = Producer(config)
    for number in range(_RECORDS):
        producer.produce("spread", f"{group} {number}", partition=number % _PARTITIONS)
    assert producer.flush(30) == 0
    consumer = Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["spread"])
    seen = set()

    def consumed_all():
        message = consumer.poll(0.5)
        if message is not None and message.error() is None and message.value().decode().startswith(group):
            seen.add(message.value())
        return len(seen) == _RECORDS

    until(consumed_all, poll_seconds=0)
    consumer.close()
    return {(broker.host, broker.port) for broker in brokers.values()}


@pytest.mark.newest_kafka
def test_addresses_are_rewritten_and_clients_reach_each_broker_through_the_gateway(nodes, settings, tmp_path):
    with running_gateway(settings, tmp_path / "gateway.log") as gateway:
        addresses = {(HOST, gateway.port + index) for index in range(len(nodes))}
        assert use_all_brokers(gateway.address) == addresses
        assert leaders_named_by_others(gateway.port, len(nodes)) <= addresses


def test_a_broker_that_was_down_when_the_gateway_started_is_reached_through_it(nodes, settings, tmp_path):
    """Clients get in at its port meanwhile."""
    *_, last = nodes
    direct = admin_of(settings)
    often = {"jobs.gateway.server.CHECK_SECONDS": 0.2}
    last.stop()
    with ExitStack() as stack:
        try:
            until(lambda: len(direct.list_topics(timeout=5).brokers) == len(nodes) - 1)
            gateway = stack.enter_context(running_gateway(settings, tmp_path / "gateway.log", constants=often))
            early = AdminClient({**QUIET, "bootstrap.servers": f"{HOST}:{gateway.port + len(nodes) - 1}"})
            assert len(early.list_topics(timeout=10).brokers) == len(nodes) - 1
        finally:
            last.start()
        clients = AdminClient({**QUIET, "bootstrap.servers": gateway.address})
        until(lambda: len(clients.list_topics(timeout=5).brokers) == len(nodes))
        assert use_all_brokers(gateway.address) == {(HOST, gateway.port + index) for index in range(len(nodes))}


def test_a_client_gets_in_at_the_port_of_a_broker_that_is_down_or_was_replaced(cluster, settings, tmp_path):
    """A running client and one that starts, librdkafka and Kafka's own; the third broker is replaced by a fourth."""
    *_, third = cluster.nodes
    often = {"jobs.gateway.server.CHECK_SECONDS": 0.2}
    with ExitStack() as stack:
        gateway = stack.enter_context(running_gateway(settings, tmp_path / "gateway.log", constants=often))
        ports = {node: gateway.port + node - 1 for node in (1, 2, 3, 4)}
        known = {**QUIET, "bootstrap.servers": f"{HOST}:{ports[3]}"}
        running = AdminClient(known)
        assert set(running.list_topics(timeout=10).brokers) == {1, 2, 3}
        stack.callback(lambda: third.is_running or third.start())
        third.stop()
        starting = AdminClient(known)
        for client in (running, starting):
            until(lambda client=client: set(client.list_topics(timeout=30).brokers) == {1, 2})
        assert "spread" in kafka_topics(f"{HOST}:{ports[3]}", "--list")

        stack.callback(cluster.joining.stop)
        cluster.joining.start()
        until(lambda: port_of(running, 4) == ports[4])
        direct = admin_of(settings)
        direct.create_topics([NewTopic("at-fourth", 1, replica_assignment=[[4]])])["at-fourth"].result(30)
        producer = Producer(known)
        producer.produce("at-fourth", b"x")
        assert producer.flush(30) == 0
        direct.delete_topics(["at-fourth"])["at-fourth"].result(30)

        third.start()
        until(lambda: port_of(running, 3) == ports[3])
        assert use_all_brokers(f"{HOST}:{ports[3]}") == {(HOST, port) for port in ports.values()}


def port_of(admin, node):
    """Return the port of a broker in the metadata of a client; None without the broker."""
    broker = admin.list_topics(timeout=10).brokers.get(node)
    return broker and broker.port


def kafka_topics(address, *options):
    command = ["java", *JVM_OPTIONS.split(), "-cp", f"{CHECKOUT}/.jars/broker/*"]
    command += ["org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def leaders_named_by_others(first, ports):
    """Fetch all partitions from each broker, and return the addresses of the leaders that are named (KIP-951)."""
    named = set()
    for port in range(first, first + ports):
        with wire_client(port) as client:
            (topic,) = client.call(3, 12, metadata("spread"))["topics"]
            leader = {partition["partitionIndex"]: partition["leaderId"] for partition in topic["partitions"]}
            wanted = {"currentLeaderEpoch": -1, "fetchOffset": 0, "logStartOffset": -1, "partitionMaxBytes": 1 << 20}
            partitions = [{"partition": number, **wanted} for number in leader]
            request = {"maxWaitMs": 100, "minBytes": 0, "maxBytes": 1 << 20, "sessionEpoch": -1}
            request |= {"topics": [{"topicId": topic["topicId"], "partitions": partitions}], "forgottenTopicsData": []}
            answer = client.call(1, protocol().apis[1].max_version, request)
            (fetched,) = answer["responses"]
            others = {
                leader[partition["partitionIndex"]]
                for partition in fetched["partitions"]
                if partition["errorCode"] == 6
            }
            assert {endpoint["nodeId"] for endpoint in answer["nodeEndpoints"]} == others
            assert len(others) == len(set(leader.values())) - 1
            named |= {(endpoint["host"], endpoint["port"]) for endpoint in answer["nodeEndpoints"]}
    assert named
    return named


def test_brokers_that_advertise_the_gateway_are_reached_through_it_without_rewriting(nodes, settings, tmp_path):
    listeners = ",".join(f"{node.outer}={HOST}:{node.inner}" for node in nodes)
    given = ("gateway.advertised_by=brokers", f"gateway.listeners={listeners}")
    with running_gateway(settings, tmp_path / "gateway.log", *given):
        assert use_all_brokers(f"{HOST}:{nodes[0].outer}") == {(HOST, node.outer) for node in nodes}


@pytest.mark.newest_kafka
def test_a_share_group_consumes_through_the_gateway(plain):
    """The consumer begins at the end of the topic, so records are produced until it has one."""
    servers = {"bootstrap.servers": f"127.0.0.1:{plain.gateway.port}", **QUIET}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("shared", 1)])["shared"].result(30)
    producer = Producer(servers)
    options = ["--topic", "shared", "--group", "sharers", "--max-messages", "1", "--timeout-ms", "60000"]
    command = ["java", *JVM_OPTIONS.split(), "-cp", f"{CHECKOUT}/.jars/broker/*"]
    command += ["org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--bootstrap-server"]
    with subprocess.Popen(
        [*command, servers["bootstrap.servers"], *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as consumer:

        def has_ended():
            producer.produce("shared", b"hello")
            producer.flush(10)
            return consumer.poll() is not None

        try:
            until(has_ended, 90)
        finally:
            consumer.kill()
        out, err = consumer.communicate()
    assert (out, consumer.returncode) == ("hello\n", 0), err
