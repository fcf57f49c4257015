"""The missing parts of a checkpoint, derived from the names of its files."""

import pytest

from jobs.storage.checkpoint import Checkpoint


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
