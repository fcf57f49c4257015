"""`cluster publish`: which cluster is asked."""

import pytest
from typer.testing import CliRunner

from jobs.__main__ import app
from jobs.cli.control import cluster as command
from quota.kafka import reading
from quota.kafka.quotas import writer
from quota.records.quota_log import Cluster


@pytest.fixture
def asked(monkeypatch):
    """The servers that are asked for their topics."""
    servers = []

    def read_cluster(connection, seconds):
        del seconds
        servers.append(connection.servers)
        return Cluster({"clicks": [1]})

    monkeypatch.setattr(command, "prepare_quota_topic", lambda _: None)
    monkeypatch.setattr(reading, "read_cluster", read_cluster)
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
def test_the_cluster_whose_topics_are_changed_is_asked_unless_another_one_is_named(asked, options, expected):
    told = CliRunner().invoke(app, ["cluster", "publish", "--bootstrap-server", "log:9092", *options])
    assert told.exit_code == 0, told.output
    assert asked == [expected]
