"""A query that starts from scratch, or from another checkpoint, by one write."""

import json
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition

from jobs.storage import resumption
from jobs.storage.checkpoint import Checkpoint, new_folder
from jobs.storage.deployment import Deployment, claim_storage
from jobs.storage.resumption import (
    check_stateful_checkpoint,
    replace_checkpoint,
    reset_checkpoint,
    resume_checkpoint,
)
from quota.errors import ClusterError, MutationQuotaError
from quota.settings import Settings, load_settings
from tests.support.memory_files import MemoryFiles

POINTER = "checkpoints/enforce.json"


def checkpoint_in(folder):
    """The files of a checkpoint of one finished batch."""
    return {
        f"{folder}/v3/metadata": '{"id": "an-id"}',
        f"{folder}/v3/offsets/0": 'v1\n{"batchTimestampMs": 1}\n{"requests": {"0": 7}}',
        f"{folder}/v3/commits/0": "v1\n{}",
        f"{folder}/v3/state/0/0/1.delta": "",
    }


def remove(*parts):
    """Return a fault that removes these files and folders of a checkpoint."""

    def _remove(files):
        for part in parts:
            files.remove(f"checkpoints/enforce/v3{part}")

    return _remove


def cut(file):
    """Return a fault that leaves the first half of a file of a checkpoint."""

    def _cut(files):
        path = f"checkpoints/enforce/v3/{file}"
        files.texts[path] = files.texts[path][: len(files.texts[path]) // 2]

    return _cut


FAULTS = {
    "all of it": (remove(""), "is missing, and with it all buckets"),
    "offsets": (remove("/offsets"), "its offsets are missing"),
    "newest offsets": (remove("/offsets/1"), "offsets/1 is missing"),
    "offsets before the newest": (remove("/offsets/0"), "offsets/0 is missing"),
    "half of the offsets": (cut("offsets/1"), "offsets/1 is truncated"),
    "half of a commit": (cut("commits/1"), "commits/1 is truncated"),
    "half of metadata": (cut("metadata"), "its file metadata is missing or damaged"),
    "state": (remove("/state"), "its state is missing"),
}
"""What is removed from a checkpoint of two batches, and what the error says of it."""


@pytest.fixture
def files():
    """A root whose checkpoint has never been replaced: it has no pointer."""
    left = MemoryFiles()
    left.texts |= checkpoint_in("checkpoints/enforce")
    left.texts["deployment/1"] = json.dumps({"topics": {}, "checkpoints": {"enforce": 3}})
    return left


class Killed(Exception):
    """The process was killed."""


def kill_at_write(files, number):
    """Have the process killed at its n-th write, which does not happen."""
    writes = iter(range(1, 9))

    def killing(write):
        def killed(path, text):
            if next(writes) == number:
                raise Killed
            return write(path, text)

        return killed

    files.write, files.create = killing(files.write), killing(files.create)


def checked(files, version):
    return check_stateful_checkpoint(files, "enforce", version, Deployment.read(files))


@pytest.mark.parametrize(("fault", "expected"), FAULTS.values(), ids=FAULTS)
def test_an_incomplete_checkpoint_is_rejected_with_a_line_that_says_how_to_restore_it(files, fault, expected):
    """The first batch's files are those of the second, too."""
    first = {path: text for path, text in files.texts.items() if path.endswith("/0")}
    files.texts |= {f"{path.removesuffix('0')}1": text for path, text in first.items()}
    assert checked(files, 3).commits == [0, 1]
    fault(files)
    with pytest.raises(MutationQuotaError) as raised:
        checked(files, 3)
    line = str(raised.value)
    assert expected in line
    assert "s3a://bucket/root/checkpoints/enforce/v3" in line
    assert "restore it from a backup" in line
    assert "enforce --reset-state" in line
    assert "\n" not in line


def test_after_a_reset_the_query_starts_from_scratch_and_its_old_checkpoint_stays(files, caplog):
    before = dict(files.texts)

    reset_checkpoint(files, "enforce")

    of_enforce = checked(files, 3)
    assert not of_enforce.exists
    assert of_enforce.folder.startswith("checkpoints/enforce-")
    assert "the old one is in s3a://bucket/root/checkpoints/enforce" in caplog.text
    assert files.texts.items() >= {path: text for path, text in before.items() if "deployment" not in path}.items()


@pytest.mark.parametrize(
    ("change", "write"), [("reset", 1), ("reset", 2), ("reset", 3), ("replace", 1), ("replace", 2)]
)
def test_a_change_of_the_checkpoint_that_is_killed_leaves_the_old_one_in_use(files, change, write):
    kill_at_write(files, write)
    with pytest.raises(Killed):
        reset_checkpoint(files, "enforce") if change == "reset" else _replace(files)
    del files.write, files.create
    assert checked(files, 3).folder == "checkpoints/enforce/v3"


def _replace(files):
    prepared = new_folder(files, "enforce")
    files.texts |= checkpoint_in(f"checkpoints/{prepared}")
    replace_checkpoint(files, "enforce", 3, prepared)
    return prepared


def test_a_replacement_of_a_lost_checkpoint_that_is_killed_does_not_start_with_full_buckets(files):
    files.remove("checkpoints")
    kill_at_write(files, 2)
    with pytest.raises(Killed):
        _replace(files)

    del files.write, files.create
    with pytest.raises(MutationQuotaError, match="is missing, and with it all buckets"):
        checked(files, 3)


def test_a_start_reads_the_facts_of_its_root_once(files, monkeypatch):
    read, paths = files.read, []
    monkeypatch.setattr(files, "read", lambda path: paths.append(path) or read(path))
    deployment = claim_storage(files, Settings(), {})
    assert resume_checkpoint(files, "enforce", 3, deployment).commits == [0]
    assert [path for path in paths if path.startswith("deployment")] == ["deployment/1"]


def test_a_lost_or_damaged_pointer_does_not_restore_an_old_checkpoint(files):
    prepared = _replace(files)

    pointer = files.texts.pop(POINTER)
    with pytest.raises(MutationQuotaError, match=r"enforce\.json is missing; restore it from a backup, or write"):
        Checkpoint.read(files, "enforce", 3)
    files.texts[POINTER] = pointer[:9]
    with pytest.raises(MutationQuotaError, match=r"enforce\.json is damaged; restore it"):
        Checkpoint.read(files, "enforce", 3)
    files.texts[POINTER] = json.dumps({"folder": prepared})
    assert Checkpoint.read(files, "enforce", 3).exists
    assert Deployment.read(files).checkpoints == {"enforce": 3}


def test_buckets_of_another_version_are_not_forgotten(files):
    """An older state cannot be read by this version; a newer one may contain later decisions."""
    with pytest.raises(MutationQuotaError, match=r"have version 3, and this program needs version 4, which is missing"):
        checked(files, 4)
    files.remove("deployment")  # as a program without it left the root
    with pytest.raises(MutationQuotaError, match=r"have version 3, and this program needs version 4, .*--reset-state"):
        checked(files, 4)
    resume_checkpoint(files, "enforce", 3, Deployment.read(files))
    assert Deployment.read(files).checkpoints == {"enforce": 3}
    with pytest.raises(MutationQuotaError, match=r"written by a newer program, as version 3 .*--reset-state"):
        checked(files, 2)
    files.texts["deployment/9"] = "{"
    with pytest.raises(MutationQuotaError, match=r"deployment/9 is damaged; restore it, or remove it"):
        checked(files, 3)


def checkpoint(offsets, commits, *, query_id="id", truncated=(), has_state=True):
    return Checkpoint("checkpoints/enforce/v1", query_id, offsets, commits, list(truncated), has_state)


@pytest.mark.parametrize(
    ("offsets", "commits"),
    [([0], []), ([0], [0]), ([0, 1, 2], [0, 1]), ([4, 5, 6], [4, 5, 6]), ([0, 1, 2], [])],
    ids=["killed in the first batch", "one batch", "killed in a batch", "older ones cleaned up", "commits gone"],
)
def test_complete_checkpoints_can_be_resumed_and_without_state_only_before_the_first_commit(offsets, commits):
    assert checkpoint(offsets, commits).missing(stateful=True) is None
    without = checkpoint(offsets, commits, has_state=False)
    assert (without.exists, without.missing(stateful=True)) == (True, "its state is missing" if commits else None)


MOVES = ClusterError("no leader")


@pytest.fixture
def check(monkeypatch):
    """Return a function that checks a query at offset 50 of a topic whose offsets are looked up in this order.

    It returns those that were not looked up.
    """

    def _check(*ranges, **spark):
        remaining = iter(offset for bounds in ranges for offset in bounds)

        def offsets(partitions, *_):
            offset = next(remaining)
            if isinstance(offset, Exception):
                raise offset
            return dict.fromkeys(partitions, offset)

        settings = [f"spark.{name}={value}" for name, value in spark.items()]
        resumption.check_gaps(
            load_settings([*settings, "kafka.timeout_seconds=0.5"], environment={}),
            SimpleNamespace(offsets=offsets),
            "enforce",
            [TopicPartition("requests", 1, 50)],
        )
        return list(remaining)

    monkeypatch.setattr(resumption, "_POLL_SECONDS", 0.0)
    return _check


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_partition_that_ends_before_what_was_read_is_rejected_whatever_the_settings(check, fail_on_data_loss):
    """Its next records would get ids that earlier decisions have."""
    with pytest.raises(MutationQuotaError, match="requests-1 ends at offset 5, but enforce has read it up to 50: a br"):
        check(*[(0, 5)] * 1_000_000, fail_on_data_loss=fail_on_data_loss)


@pytest.mark.parametrize("ranges", [[(0, 50)], [(50, 50)], [(0, 49), (0, 49), (0, 50)]])
def test_a_partition_that_ends_at_what_was_read_is_complete_also_if_its_new_leader_knows_it_late(check, ranges):
    assert check(*ranges) == []


def test_a_leader_that_moves_is_waited_for_and_one_that_stays_away_is_an_error(check):
    assert check([MOVES], (0, 50)) == []
    with pytest.raises(ClusterError, match="no leader"):
        check(*[[MOVES]] * 1_000_000)


def test_records_that_were_removed_are_named(check, caplog):
    with pytest.raises(MutationQuotaError, match="3 records were removed before enforce read them: requests-1 from"):
        check((53, 60))
    check((53, 60), fail_on_data_loss="false")
    assert "requests-1 from offset 50 to 52; continuing after them" in caplog.text
