"""The parts of a deployment: its storage, its endpoints, and what happens where one of them does not answer."""

import tarfile
import threading
import time

import pytest

from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.metrics.loops import ApplierMetrics, LoopHealth
from jobs.sandbox.broker import free_port
from jobs.status import assembly
from jobs.status.endpoints import read_endpoint
from jobs.status.storage_facts import read_storage
from quota.errors import ClusterError
from quota.kafka.applier.stats import ApplierStats
from quota.settings import load_settings
from schemas.documents.status import BatchStatus
from tests.support.checkout import CHECKOUT
from tests.unit.jobs.status.conftest import cluster, storage


@pytest.fixture
def spark_storage(tmp_path):
    """Return settings of a storage root as Spark leaves it."""
    with tarfile.open(CHECKOUT / "tests" / "upgrades" / "state-v3.tar.gz") as left:
        left.extractall(tmp_path, filter="data")
    return load_settings([f"storage.root={tmp_path}"], environment={}, with_default_file=False)


def test_checkpoints_and_tables_are_read_without_a_jvm(spark_storage):
    found = read_storage(spark_storage)

    enforce, audit = found.checkpoints["enforce"], found.checkpoints["audit"]
    assert (enforce.exists, enforce.damage, enforce.open_batch) == (True, None, None)
    assert enforce.last_batch == BatchStatus(1, 1_795_298_933_267)
    assert enforce.positions == {("frozen-3-requests", 0): 7, ("frozen-3-requests", 1): 0}
    assert audit.last_batch.number == 1
    decisions = found.tables["decisions"]
    assert (decisions.version, decisions.schema_version, decisions.rows, decisions.files) == (2, 4, 6, 2)
    assert decisions.committed_at == 1_795_298_937_746
    assert decisions.maintained_at == 1_795_298_920_089  # its creation


def test_a_batch_that_is_not_finished_is_open(spark_storage, tmp_path):
    (tmp_path / "checkpoints" / "enforce" / "v3" / "commits" / "1").unlink()

    found = read_storage(spark_storage).checkpoints["enforce"]

    assert (found.last_batch.number, found.open_batch) == (0, BatchStatus(1, 1_795_298_933_267))
    assert found.positions == {("frozen-3-requests", 0): 4, ("frozen-3-requests", 1): 0}


def test_a_folder_with_a_foreign_table_is_reported(spark_storage, tmp_path):
    log = tmp_path / "tables" / "decisions" / "_delta_log" / "00000000000000000000.json"
    log.write_text(log.read_text().replace("mutationQuota.schemaVersion", "another"))

    found = read_storage(spark_storage).tables["decisions"]

    assert "it has no mutationQuota.schemaVersion" in found.error


def test_an_endpoint_reports_its_jobs_and_their_readiness():
    settings = load_settings([f"metrics.port={free_port()}"], environment={}, with_default_file=False)
    address = f"127.0.0.1:{settings.metrics.port}"
    stats = ApplierStats(looped_at=time.monotonic())
    with ServiceEndpoint(settings.metrics, "applier") as endpoint:
        starting = read_endpoint(address)
        with endpoint.following(settings, ApplierMetrics(settings, stats), LoopHealth(stats)):
            running = read_endpoint(address.replace("127.0.0.1", "0.0.0.0"))  # noqa: S104 as a job may listen
    stopped = read_endpoint(address)

    assert (starting.jobs, starting.ready, starting.error) == ([], False, None)
    assert starting.reason == "it is starting"
    assert (running.jobs, running.ready, running.error) == (["applier"], True, None)
    assert (stopped.jobs, stopped.ready) == (None, None)
    assert stopped.error == "Connection refused"


def test_a_part_that_does_not_answer_does_not_hold_up_the_others(settings, monkeypatch):
    answer = threading.Event()
    monkeypatch.setattr(assembly, "read_cluster_facts", lambda _: answer.wait() and cluster())
    monkeypatch.setattr(assembly, "read_storage", lambda _: storage())
    try:
        found = assembly.read_status(settings, [], 0.2)
    finally:
        answer.set()

    assert found.kafka.error == "Kafka at 127.0.0.1:9092 does not respond within 0.2 s"
    assert {each.name for each in found.tables} == {"decisions", "dead_letters", "quota_changes"}


def test_the_errors_of_all_parts_are_reported(settings, monkeypatch):
    def fail(error):
        raise error

    monkeypatch.setattr(assembly, "read_cluster_facts", lambda _: fail(ClusterError("cannot reach Kafka")))
    monkeypatch.setattr(assembly, "read_storage", lambda _: fail(ValueError("odd")))

    found = assembly.read_status(settings, ["127.0.0.1:1"], 5)

    assert found.problems[:2] == ["cannot reach Kafka", "the storage root /srv/quota: unexpected ValueError: odd"]
    assert found.problems[2].startswith("metrics at 127.0.0.1:1: ")
