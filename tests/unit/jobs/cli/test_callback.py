"""The cluster that `callback publish-metadata` uses."""

import pytest
from typer.testing import CliRunner

from jobs.__main__ import app
from jobs.cli import callback as command
from quota.kafka.quotas import writer
from quota.kafka.topics import topic_admin
from quota.records.quota_log import Cluster


@pytest.fixture
def requested_servers(monkeypatch):
    """Return the servers to which requests for topics were sent."""
    servers = []

    def read_cluster(connection, seconds):
        del seconds
        servers.append(connection.servers)
        return Cluster({"clicks": [1]})

    monkeypatch.setattr(command, "prepare_quota_topic", lambda _: None)
    monkeypatch.setattr(topic_admin, "read_cluster", read_cluster)
    monkeypatch.setattr(writer, "publish_cluster", lambda *_: None)
    return servers


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "log:9092"),
        (["--set", "kafka.target_servers=target:9092"], "target:9092"),
        (["--set", "kafka.target_servers=target:9092", "--source-server", "other:9092"], "other:9092"),
    ],
)
def test_the_target_cluster_is_used_unless_another_one_is_named(requested_servers, options, expected):
    done = CliRunner().invoke(app, ["callback", "publish-metadata", "--bootstrap-server", "log:9092", *options])
    assert done.exit_code == 0, done.output
    assert requested_servers == [expected]
