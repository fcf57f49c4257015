"""The missing parts of a checkpoint, derived from the names of its files."""

import pytest

from jobs.storage.checkpoint import Checkpoint
from tests.support.memory_files import MemoryFiles


def checkpoint(offsets, commits, *, query_id="id", truncated=(), has_state=True):
    return Checkpoint("checkpoints/enforce/v1", query_id, offsets, commits, list(truncated), has_state)


@pytest.mark.parametrize(
    ("offsets", "commits"),
    [([0], []), ([0], [0]), ([0, 1, 2], [0, 1]), ([4, 5, 6], [4, 5, 6]), ([0, 1, 2], [])],
    ids=["killed in the first batch", "one batch", "killed in a batch", "older ones cleaned up", "commits gone"],
)
def test_complete_checkpoints_can_be_resumed(offsets, commits):
    assert checkpoint(offsets, commits).missing(stateful=True) is None


def test_before_the_first_commit_state_may_be_missing():
    assert checkpoint([0], [], has_state=False).missing(stateful=True) is None
    assert not checkpoint([], [], has_state=False).exists


def test_the_number_of_state_partitions_is_that_of_the_batches_before():
    """Spark stores it with each batch; a new checkpoint has none, and neither has a damaged file."""
    files = MemoryFiles()
    path = "checkpoints/enforce/v1/offsets/1"
    files.texts[path] = 'v1\n{"batchTimestampMs":5,"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"t":{"0":7}}'
    assert checkpoint([0, 1], [0]).state_partitions(files) == 2
    assert checkpoint([], []).state_partitions(files) is None
    files.texts[path] = files.texts[path][:40]
    assert checkpoint([0, 1], [0]).state_partitions(files) is None
