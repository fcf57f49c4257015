"""The check of the writers of a checkpoint: it finds a file that was written without the lease."""

import json
import os

import pytest

from tests.evidence.chaos.writers import Write, WrittenFiles, put_files, without_lease
from tests.support.waiting import until

FIRST, SECOND = 20_000, 20_001
CLAIMS = {
    Write("enforce", "9", FIRST, 100.0),
    Write("enforce", "10", SECOND, 200.0),
    Write("audit", "1", SECOND, 150.0),
}


def offsets(group, at, query="enforce"):
    return Write(query, "offsets/7", group, at)


def test_files_of_the_process_that_holds_the_lease_are_in_order():
    """A lease passes to another process, and each query has its own."""
    writes = [offsets(FIRST, 100.5), offsets(FIRST, 199.5), offsets(SECOND, 200.5), offsets(SECOND, 150.5, "audit")]
    assert without_lease(writes, CLAIMS) == []


@pytest.mark.parametrize(
    "wrong",
    [
        offsets(SECOND, 199.5),  # a standby that does not wait
        offsets(FIRST, 200.5),  # a process that has lost its lease
        offsets(FIRST, 99.5),  # one that starts to write before it has a lease
        offsets(FIRST, 150.5, "audit"),  # one that has the lease of another query only
        offsets(0, 150.5),  # another program
    ],
)
def test_a_file_of_another_process_is_found(wrong):
    assert without_lease([offsets(FIRST, 100.5), offsets(SECOND, 200.5), wrong], CLAIMS) == [wrong]


def test_each_write_of_a_file_is_recorded_with_its_group_and_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.evidence.chaos.writers._LOOK_SECONDS", 0.01)
    checkpoint, leases = tmp_path / "checkpoints" / "enforce" / "v1", tmp_path / "leases" / "enforce"
    for folder in (checkpoint / "state" / "0", leases):
        folder.mkdir(parents=True)
    lease, group = leases / "3", tmp_path.stat().st_gid
    lease.write_text(json.dumps({"started_at": 2500}))
    files = [checkpoint / "metadata", checkpoint / "state" / "0" / "1.zip"]
    for file in files:
        file.touch()
        os.utime(file, (1, 3))
    written = WrittenFiles(tmp_path)
    with written.watching():
        until(lambda: len(written.writes) == len(files))
        os.utime(files[1], (1, 4))  # it is replaced
    assert written.claims == {Write("enforce", str(lease), group, 2.5)}
    expected = [(files[0], 3.0), (files[1], 3.0), (files[1], 4.0)]
    assert written.writes == {Write("enforce", str(file), group, at) for file, at in expected}


def test_the_log_of_an_s3_server_has_each_write_with_its_writer(tmp_path):
    """A renewal, a request that is rejected, and files beside those of the query are no writes of its checkpoint."""
    agent, root = "Hadoop 3.4.2, aws-sdk-java/2.29", "/quotas/store"
    log = tmp_path / "s3.log"
    requests = [
        ("PUT", "leases/enforce/9", 200, "job-1"),
        ("PUT", "checkpoints/enforce/v1/offsets/7", 200, "job-1"),
        ("PUT", "leases/enforce/10", 412, "job-1"),
        ("PUT", "leases/enforce/10", 200, "job-2"),
        ("PUT", "leases/enforce/9", 200, "job-1"),
        ("GET", "checkpoints/enforce/v1/offsets/7", 200, "job-2"),
        ("PUT", "checkpoints/enforce/v1/offsets/8?partNumber=1", 200, "job-2"),
        ("PUT", "checkpoints/enforce.json", 200, "job-2"),
        ("PUT", "checkpoints/enforce/v1/offsets/8", 200, "job-1"),
    ]
    log.write_text(
        "".join(
            f'127.0.0.1 - - [29/Nov/2026 21:46:25] "{method} {root}/{path} HTTP/1.1" {code} "{name}, {agent}"\n'
            for method, path, code, name in requests
        )
    )
    writes, claims = put_files(log)
    assert list(claims) == [Write("enforce", "9", "job-1", 0), Write("enforce", "10", "job-2", 2)]
    assert writes == [
        Write("enforce", "v1/offsets/7", "job-1", 1),
        Write("enforce", "v1/offsets/8", "job-2", 4),
        Write("enforce", "v1/offsets/8", "job-1", 5),
    ]
    assert without_lease(writes, claims) == writes[2:]
