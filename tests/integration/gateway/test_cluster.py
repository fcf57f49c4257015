"""The gateway in front of a cluster of three brokers: each by its own port, and no way past it."""

import subprocess
import uuid
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from jobs.sandbox.broker import HOST, free_port
from tests.support.clients import QUIET
from tests.support.cluster import running_cluster
from tests.support.programs import command_line
from tests.support.waiting import until

_PARTITIONS = 6
_RECORDS = 60


@pytest.fixture(scope="module")
def nodes(base_settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, base_settings.broker.jars) as nodes:
        admin = AdminClient({**QUIET, "bootstrap.servers": nodes[0].broker.address})
        until(lambda: len(admin.list_topics(timeout=5).brokers) == len(nodes))
        admin.create_topics([NewTopic("spread", _PARTITIONS, 1)])["spread"].result(30)
        yield nodes


@contextmanager
def running_gateway(*options):
    """Run a gateway inside the block; it has ended well after it."""
    with subprocess.Popen(command_line("gateway", *options), stdout=subprocess.PIPE, text=True) as process:
        try:
            ready = process.stdout.readline()
            assert ready.startswith("ready ")
            yield ready.split()[1]
        finally:
            process.terminate()
            assert process.wait(60) == 0


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
    return {(each.host, each.port) for each in brokers.values()}


def test_addresses_are_rewritten_and_clients_reach_each_broker_through_the_gateway(nodes):
    first = free_port()
    with running_gateway(
        "--bootstrap-server", nodes[0].broker.address, "--set", f"gateway.first_port={first}"
    ) as address:
        assert use_all_brokers(address) == {(HOST, first + index) for index in range(len(nodes))}


def test_brokers_that_advertise_the_gateway_are_reached_through_it_without_rewriting(nodes):
    listeners = ",".join(f"{each.outer}={HOST}:{each.inner}" for each in nodes)
    with running_gateway(
        "--bootstrap-server",
        nodes[0].broker.address,
        "--set",
        "gateway.advertised_by=brokers",
        "--set",
        f"gateway.listeners={listeners}",
    ) as address:
        assert use_all_brokers(address) == {(HOST, each.outer) for each in nodes}
