"""The cluster that `callback publish-metadata` uses."""

import json

import pytest
from typer.testing import CliRunner

from jobs.__main__ import app
from jobs.buckets import moving
from jobs.buckets.saved import BucketFileHeader, SavedBucket, SavedBuckets, read_buckets
from jobs.cli import callback as command
from quota.kafka.quotas import writer
from quota.kafka.topics import topic_admin
from quota.records.quota_log import Cluster
from schemas.buckets import STATE_VERSION


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


SAVED = SavedBuckets(BucketFileHeader(STATE_VERSION, 1, {}, {}), [SavedBucket('["user","alice"]', -0.1, 5, 2.0)])


@pytest.fixture
def export(monkeypatch):
    """Run the command, in place of a checkpoint with one bucket."""
    monkeypatch.setattr(moving, "export_buckets", lambda _: SAVED)
    return lambda *options: CliRunner().invoke(app, ["buckets", "export", *options])


@pytest.mark.parametrize("options", [(), ("--output-file", "-")])
def test_standard_output_is_such_a_file(export, tmp_path, options):
    file = tmp_path / "buckets.jsonl"
    file.write_bytes(export(*options).stdout_bytes)
    assert read_buckets(file) == SAVED


def test_a_file_is_written_with_a_summary(export, tmp_path):
    file = tmp_path / "buckets.jsonl"
    assert export("--output-file", str(file)).stdout == f"Wrote 1 bucket to {file}.\n"
    assert read_buckets(file) == SAVED
    assert "the file exists; add --force" in str(export("--output-file", str(file)).exception)
    again = export("--output-file", str(file), "--force", "--output", "json")
    assert json.loads(again.stdout) == {"file": str(file), "bucket_count": 1}
