"""`broker --nodes 3`, as a user runs it."""

import signal
import subprocess

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from quota.kafka.topics.layouts import LayoutReader
from quota.settings.connection import Connection
from tests.support.clients import QUIET
from tests.support.programs import child_processes, command_line, process_state, run
from tests.support.waiting import until


@pytest.mark.timeout(300)
def test_three_nodes_hold_each_topic_three_times_and_stop_at_one_ctrl_c(tmp_path):
    """Two of three replicas must be in sync by default, including the topics of groups and transactions."""
    options = ("--nodes", "3", "--port", "0", "--data", str(tmp_path / "brokers"))
    with subprocess.Popen(command_line("broker", *options), stdout=subprocess.PIPE, text=True) as process:
        try:
            ready, address = process.stdout.readline().split()
            nodes = child_processes(process.pid)
            layout = LayoutReader(Connection(address), 30).cluster()
            configs = _broker_configs(address)
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert (ready, len(address.split(",")), len(nodes)) == ("ready", 3, 3)
    assert {name: topic.replication_factor for name, topic in layout.topics.items()} == dict.fromkeys(
        (f"mutation-{each}" for each in ("requests", "decisions", "dead-letters", "quotas", "results", "positions")), 3
    )
    assert (configs["default.replication.factor"], configs["min.insync.replicas"]) == ("3", "2")
    assert configs["offsets.topic.replication.factor"] == "3"
    assert (configs["transaction.state.log.replication.factor"], configs["transaction.state.log.min.isr"]) == ("3", "2")
    until(lambda: all(process_state(each) in {"Z", "X", None} for each in nodes))


def test_two_nodes_are_rejected_since_they_stop_together():
    done = run("broker", "--nodes", "2", "--port", "0")
    assert done.returncode == 2
    assert "two nodes stop when one of them fails; give 1, or 3 to 9" in done.stderr


def _broker_configs(address):
    admin = AdminClient({**QUIET, "bootstrap.servers": address})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return {name: entry.value for name, entry in future.result(30).items()}
