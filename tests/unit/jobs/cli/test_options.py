"""Options that commands share: files to write, configs, confirmation, and the cluster that is described."""

import errno
import json
import os
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from jobs.buckets import store
from jobs.buckets.saved import BucketFileHeader, SavedBucket, SavedBuckets, read_buckets
from jobs.cli import callback as command
from jobs.cli.options import ConfirmOptions, FileOptions, split_configs
from jobs.cli.output import OutputOptions
from jobs.cli.program import app
from quota.errors import BadInput
from quota.kafka.quotas import writer
from quota.kafka.topics import topic_admin
from quota.records.quota_log import Cluster
from schemas.buckets import STATE_VERSION
from tests.support.full_disk import fill_disk
from tests.support.programs import run


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, []),
        (["a=1,b=2"], ["a=1", "b=2"]),
        (["a=1", "b=2, c=3"], ["a=1", "b=2", "c=3"]),
        (["a=[1,2],b=3"], ["a=[1,2]", "b=3"]),
        (["a=1]2,b=3"], ["a=1]2", "b=3"]),
        ([""], [""]),
    ],
)
def test_configs_are_separated_as_in_kafka_configs(given, expected):
    assert split_configs(given) == expected


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match=r"pipe: this is not a regular file; - is standard output"):
        FileOptions(pipe, force=True).write("content")
    assert pipe.is_fifo()


@pytest.mark.parametrize("output", ["json", "yaml", "jsonl"])
def test_there_is_no_confirmation_if_data_is_printed(monkeypatch, output):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with pytest.raises(BadInput, match="cannot ask for confirmation: add --yes"):
        ConfirmOptions().check(OutputOptions(output=output))
    ConfirmOptions().check(OutputOptions())
    ConfirmOptions(yes=True).check(OutputOptions(output=output))
    ConfirmOptions(dry_run=True).check(OutputOptions(output=output))


def test_repeatable_options_and_switches_may_be_given_again():
    twice = ["--set", "topics.partitions=3", "-v", "--changed"] * 2
    done = run("config", "describe", "topics.partitions", *twice)
    assert (done.stdout.splitlines()[-1].split(), done.stderr) == (["topics.partitions", "3", "2", "--set"], "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "log:9092"),
        (["--set", "kafka.target_servers=target:9092"], "target:9092"),
        (["--set", "kafka.target_servers=target:9092", "--source-server", "other:9092"], "other:9092"),
    ],
)
def test_the_target_cluster_is_used_unless_another_one_is_named(monkeypatch, options, expected):
    read_cluster = Mock(return_value=Cluster({"clicks": [1]}))
    monkeypatch.setattr(topic_admin, "read_cluster", read_cluster)
    monkeypatch.setattr(command, "prepare_quota_topic", Mock())
    monkeypatch.setattr(writer, "publish_cluster", Mock(return_value=None))
    done = run("callback", "publish-metadata", "--bootstrap-server", "log:9092", *options)
    assert (done.returncode, done.stderr) == (0, "")
    (connection, _seconds), _ = read_cluster.call_args
    assert connection.servers == expected


SAVED = SavedBuckets(BucketFileHeader(STATE_VERSION, 1, {}, {}), [SavedBucket('["user","alice"]', -0.1, 5, 2.0)])


@pytest.fixture
def export(monkeypatch):
    """Run the command, in place of a checkpoint with one bucket."""
    monkeypatch.setattr(store, "export_buckets", lambda _: SAVED)
    return lambda *options: CliRunner().invoke(app, ["buckets", "export", *options])


@pytest.mark.parametrize("options", [(), ("--output-file", "-")])
def test_standard_output_is_such_a_file(export, tmp_path, options):
    file = tmp_path / "buckets.jsonl"
    file.write_bytes(export(*options).stdout_bytes)
    assert read_buckets(file) == SAVED


def test_a_file_is_written_with_a_summary_and_replaced_only_by_force(export, tmp_path):
    file = tmp_path / "buckets.jsonl"
    assert export("--output-file", str(file)).stdout == f"Wrote {file}: 1 bucket.\n"
    assert read_buckets(file) == SAVED
    file.write_text("another")
    assert "the file exists; add --force to replace it" in str(export("--output-file", str(file)).exception)
    assert file.read_text() == "another"
    again = export("--output-file", str(file), "--force", "--output", "json")
    assert read_buckets(file) == SAVED
    assert json.loads(again.stdout) == {"file": str(file), "bucket_count": 1}


def test_an_error_of_another_file_while_the_content_is_computed_is_not_that_of_the_file(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left") as raised, FileOptions(tmp_path / "out").open():
        raise full
    assert (raised.value, [*tmp_path.iterdir()]) == (full, [])


@pytest.mark.parametrize("size", [1100, 100_000])
def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch, size):
    """The smaller content is written when the file is closed."""
    fill_disk(monkeypatch)
    with pytest.raises(BadInput, match=f"--output-file {tmp_path}/out: No space left on device"):
        FileOptions(tmp_path / "out").write("x" * size)
    assert [*tmp_path.iterdir()] == []
