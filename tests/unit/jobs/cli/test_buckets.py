"""`buckets export` writes what `enforce --buckets` reads, to a file or to standard output."""

import json

import pytest
from typer.testing import CliRunner

from jobs.__main__ import app
from jobs.buckets import moving
from jobs.buckets.saved import BucketFileHeader, SavedBucket, SavedBuckets, read_buckets
from schemas.buckets import STATE_VERSION

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
