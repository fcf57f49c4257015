"""Share groups (KIP-932) through a gateway that rewrites addresses, by Kafka's own console consumer."""

import subprocess

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.checkout import CHECKOUT
from tests.support.clients import QUIET
from tests.support.programs import JVM_OPTIONS
from tests.support.waiting import until


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
