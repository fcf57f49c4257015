"""Failures in operation: each is one line that says what to do, and after the repair the job continues."""

import os
import shutil
from unittest import mock

import pytest

from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import with_plaintext_cluster
from jobs.spark.queries import stop_after_batch
from jobs.storage.deployment import Deployment
from jobs.storage.files import DeploymentSession
from jobs.storage.stored_files import LocalFiles
from quota.errors import MutationQuotaError
from schemas.buckets import STATE_VERSION
from tests.support.deployment import make_deployment, with_sections
from tests.support.full_disk import small_disk
from tests.support.needs import need
from tests.support.operator import Operator
from tests.support.waiting import until


@pytest.fixture
def operator(spark, deployment):
    return Operator(spark, deployment)


def remove(folder, *patterns):
    """Remove files and folders as a person does: Hadoop's checksum files stay."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def rejection(action, *args, **kwargs):
    """Return the one line of the error."""
    with pytest.raises(MutationQuotaError) as raised:
        action(*args, **kwargs)
    assert "\n" not in str(raised.value)
    return str(raised.value)


DAMAGES = {
    "all of it": (shutil.rmtree, "is missing, and with it all buckets"),
    "the newest state": (lambda at: remove(at, "state/0/*/2.*"), "cannot be loaded"),
    "the oldest state": (lambda at: remove(at, "state/0/*/1.*"), "cannot be loaded"),
}
"""What is removed from a checkpoint of two batches, and what the error says: before Spark reads it, and by Spark."""


def test_an_incomplete_checkpoint_is_rejected_and_the_job_continues_after_a_restore(operator, tmp_path):
    """Each part is removed in turn; no start ignores it. After the restore the debt of -20 is unchanged."""
    for name in ("a", "b"):
        operator.request(name)
        operator.enforce()
    backup = shutil.copytree(operator.checkpoint, tmp_path / "backup")
    operator.request("c")
    for part, (damage, expected) in DAMAGES.items():
        damage(operator.checkpoint)
        line = rejection(operator.enforce)
        assert expected in line, part
        assert str(operator.root) in line, part
        assert "restore it from a backup" in line, part
        assert "enforce --reset-state" in line, part
        shutil.rmtree(operator.checkpoint, ignore_errors=True)
        shutil.copytree(backup, operator.checkpoint)
    operator.enforce()
    assert operator.decided == {"a": 40.0, "b": -20.0, "c": -20.0}


def test_removed_batches_are_replayed_with_the_same_decisions(operator):
    """The newest offsets are lost; what the error offers instead of a backup is done."""
    for name in ("a", "b"):
        operator.request(name)
        operator.enforce()
    remove(operator.checkpoint, "offsets/1")
    operator.request("c")
    assert "or remove the files in offsets and commits that are newer than 0 or truncated" in rejection(
        operator.enforce
    )
    remove(operator.checkpoint, "commits/1")
    operator.enforce()
    assert operator.decided == {"a": 40.0, "b": -20.0, "c": -20.0}


def test_the_audit_loses_nothing_after_its_checkpoint_was_damaged_or_is_old(operator):
    """The tables have the records that it reads again, and each of them once."""
    operator.request("a", "b")
    operator.enforce()
    with mock.patch("jobs.audit.query._MAX_RECORDS", 2):
        operator.audit()
    checkpoint = operator.root / "checkpoints" / "audit" / "v1"
    remove(checkpoint, "offsets/1", "commits/1")
    operator.request("c")
    operator.enforce()
    operator.audit()
    assert operator.audited == ["a", "b", "c"]
    remove(checkpoint, "offsets")
    assert "its offsets are missing; remove that folder" in rejection(operator.audit)
    shutil.rmtree(checkpoint)
    operator.audit()
    assert operator.audited == ["a", "b", "c"]
    shutil.rmtree(operator.root / "tables" / "decisions")
    for _ in range(2):  # it is not made by a start that is rejected
        assert "ahead of the tables, because decisions is missing; remove that folder" in rejection(operator.audit)
    shutil.rmtree(checkpoint)
    operator.audit()
    assert operator.audited == ["a", "b", "c"]


def test_requests_removed_by_retention_are_reported_and_skipped_only_if_configured(operator, caplog):
    """Three of five requests were removed before they were decided."""
    operator.request("a")
    operator.enforce()
    operator.request(*"bcde")
    operator.delete_before(4)
    topic = operator.settings.topics.requests
    lost = f"3 records were removed before enforce read them: {topic}-0 from offset 1 to 3"
    line = rejection(operator.enforce)
    assert line.startswith(lost)
    assert "--set spark.fail_on_data_loss=false" in line
    assert operator.decided == {"a": 40.0}
    operator.enforce(spark={"fail_on_data_loss": False})
    assert lost in caplog.text
    assert operator.decided == {"a": 40.0, "e": -20.0}
    operator.enforce()


def test_without_the_quotas_nothing_is_decided(operator, monkeypatch):
    """Their topic is deleted while a request waits: a guess would be worse than an error."""
    operator.request("a")
    operator.enforce()
    operator.request("b")
    quotas = operator.settings.topics.quotas
    operator.delete_topic(quotas)
    monkeypatch.setattr("jobs.enforce.query._QUOTA_TIMEOUT_SECONDS", 1.0)
    line = rejection(operator.enforce)
    assert f"cannot read the quotas in topic {quotas}" in line
    assert "make all brokers of the quota topic available, then start it again" in line
    assert operator.decided == {"a": 40.0}


@pytest.fixture
def disk(tmp_path):
    need(os.geteuid() == 0, "only root may mount a small disk; run the tests as root")
    with small_disk(tmp_path / "disk", megabytes=2) as folder:
        yield folder


def test_a_full_disk_is_reported_and_the_job_continues_once_there_is_space(spark, deployment, disk):
    """It is full at the first start, at the checkpoint of enforce, and at the tables of the audit."""
    operator = Operator(spark, with_sections(deployment, storage={"root": str(disk)}))
    operator.request("a")
    rest = disk / "rest"
    rest.write_bytes(b"x" * shutil.disk_usage(disk).free)
    assert f"no space is left in {disk}" in rejection(operator.enforce)
    rest.unlink()
    operator.enforce()
    operator.audit()

    operator.request("b")
    rest.write_bytes(b"x" * (shutil.disk_usage(disk).free - 8192))
    line = rejection(operator.enforce)
    assert "No space left on device" in line
    assert f"no space is left in {disk}" in line
    assert "free some, then start it again: it continues from its checkpoint, and nothing is lost" in line
    rest.unlink()
    operator.enforce()

    rest.write_bytes(b"x" * (shutil.disk_usage(disk).free - 20_480))
    assert f"no space is left in {disk}" in rejection(operator.audit)
    rest.unlink()
    operator.audit()
    assert operator.decided == {"a": 40.0, "b": -20.0}
    assert operator.audited == ["a", "b"]


def test_a_restart_of_the_broker_does_not_stop_the_job(spark, base_settings, another_broker, tmp_path):
    """The broker is stopped during the query; later requests are decided by the same query."""
    settings = with_plaintext_cluster(base_settings, another_broker.address)
    operator = Operator(spark, make_deployment(settings, "restarted", tmp_path / "root"))
    query = start_enforce(DeploymentSession.on(spark, operator.settings))
    try:
        operator.request("a")
        until(lambda: sum(progress["numInputRows"] for progress in query.recentProgress) == 1)
        another_broker.stop()
        another_broker.start()
        operator.request("b")
        until(lambda: sum(progress["numInputRows"] for progress in query.recentProgress) == 2)
        assert query.isActive
    finally:
        stop_after_batch([query])
    assert operator.decided == {"a": 40.0, "b": -20.0}


def test_the_programs_last_line_names_the_error_and_the_option_to_start_over_with_full_buckets(
    spark, operator, command
):
    """The command runs as by an operator, after the checkpoint was lost."""
    operator.request("a")
    operator.enforce()
    shutil.rmtree(operator.checkpoint)
    once = ("enforce", "--once", "--set", f"storage.root={operator.root}")
    *_, last = command(*once, exit_code=1, spark=spark).splitlines()
    assert last.startswith(f"mutation-quota: the checkpoint {operator.checkpoint} is missing")
    operator.delete_before(1)
    operator.request("b")
    command(*once, "--reset-state", "--yes", spark=spark)
    assert operator.decided == {"a": 40.0, "b": 40.0}
    assert Deployment.read(LocalFiles(str(operator.root))).checkpoints == {"enforce": STATE_VERSION}
    shutil.rmtree(operator.checkpoint)
    assert "is missing" in rejection(operator.enforce)
