"""A deployment with its storage root in S3: moved buckets, upkeep, errors, and leases. `make chaos` kills one."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch
from urllib.request import Request, urlopen

import msgspec
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError

from jobs.buckets.store import capture_buckets, restore_buckets
from jobs.enforce.query import warm
from jobs.spark.properties import CHECKPOINT_FILES
from jobs.spark.session import HaltTimer
from jobs.storage.files import DeploymentSession, open_files
from jobs.storage.holder import Holder
from jobs.storage.lease import Lease, LeaseError, LeaseWatch, hold_lease
from jobs.storage.resumption import reset_checkpoint
from jobs.storage.stored_files import stored_files
from quota.errors import MutationQuotaError
from quota.kafka.topics.preparation import prepare_topics
from quota.records import codec
from quota.settings import load_settings
from tests.support.deployment import as_options
from tests.support.factories import decided as decision_of
from tests.support.object_store import rejecting_store, store_settings
from tests.support.operator import Operator
from tests.support.programs import run
from tests.support.rows import kafka_rows
from tests.support.s3 import BUCKET, CREDENTIALS, s3_server
from tests.support.tables import DAY, audit_records, read_table


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server, with credentials in the environment as a machine with a role has them."""
    with patch.dict(os.environ, CREDENTIALS), s3_server(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running


@pytest.fixture
def in_s3(deployment, server):
    """Settings of a deployment of this test, with its root in S3.

    They hold the credentials, because workers of the session's Spark may have started before the environment had them.
    """
    root = f"s3a://{BUCKET}/{deployment.topics.requests}"
    key, secret = CREDENTIALS.values()
    options = {"fs.s3a.endpoint": server.endpoint, "fs.s3a.access.key": key, "fs.s3a.secret.key": secret}
    lease = deployment.storage.lease_seconds
    storage = deployment.storage.model_validate({"root": root, "options": options, "lease_seconds": lease})
    return deployment.model_copy(update={"storage": storage})


def _root(settings, server):
    return ("--set", f"storage.root={settings.storage.root}", *server.options())


@pytest.mark.parametrize(
    "command",
    [
        "enforce",
        "audit",
        "report",
        "backtest",
        "recommend --capacity 100",
        "buckets list",
        "buckets export --output-file b.jsonl",
    ],
)
def test_a_missing_bucket_is_reported_in_one_line(server, tmp_path, command):
    done = run(*command.split(), "--set", "storage.root=s3a://nowhere/root", *server.options(), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "mutation-quota: s3a://nowhere/root/deployment/1 cannot be read: "
        "NoSuchBucket: The specified bucket does not exist; create the bucket nowhere, or set another storage.root\n"
    )


@pytest.fixture
def s3_spark(spark, server):
    """The session of the tests, which reaches the server like one that is started for it."""
    options = {
        "fs.s3a.endpoint": server.endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
    }
    hadoop = spark._jsc.hadoopConfiguration()  # noqa: SLF001 PySpark has no other way to Hadoop
    for name, value in options.items():
        hadoop.set(name, value)
    before = spark.conf.get(CHECKPOINT_FILES)
    spark.conf.set(CHECKPOINT_FILES, "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager")
    yield spark
    spark.conf.set(CHECKPOINT_FILES, before)
    for name in options:
        hadoop.unset(name)


def test_buckets_are_moved_and_the_state_is_reset(s3_spark, in_s3):
    operator = Operator(s3_spark, in_s3)
    operator.request("first", "second")
    operator.enforce()
    saved = capture_buckets(DeploymentSession.on(s3_spark, in_s3))
    restore_buckets(DeploymentSession.on(s3_spark, in_s3), saved)
    assert capture_buckets(DeploymentSession.on(s3_spark, in_s3)) == saved

    operator.request("third")
    operator.enforce()
    operator.audit()
    assert operator.decided == {"first": 40.0, "second": -20.0, "third": -20.0}
    assert operator.audited == ["first", "second", "third"]

    reset_checkpoint(operator.files, "enforce")
    operator.delete_before(3)
    operator.request("fourth")
    operator.enforce()
    assert operator.decided["fourth"] == 40.0


@pytest.mark.nightly
def test_commands_read_the_decisions(s3_spark, in_s3, server, tmp_path):
    operator = Operator(s3_spark, in_s3)
    operator.request("first", "second")
    operator.enforce()
    operator.audit()
    row, *_ = read_table(in_s3, "decisions")
    ask, where = partial(run, cwd=tmp_path), _root(in_s3, server)
    backtest = ask("backtest", "--candidate", "window-num=100", *where)
    assert backtest.returncode == 0, backtest.stderr
    assert "recomputed" in ask("explain", row["decision_id"], *where).stdout
    assert ask("report", "--output-file", "report.html", *where).returncode == 0
    assert '"alice"' in (tmp_path / "report.html").read_text()
    assert in_s3.storage.root in ask("status", *as_options(in_s3), *where).stdout


def test_maintain_deletes_expired_rows_and_files_that_nothing_uses(server, tmp_path):
    root = f"s3a://{BUCKET}/maintained"
    where = ("--set", f"storage.root={root}", *server.options())
    settings = load_settings([word for word in where if word != "--set"], environment={}, with_default_file=False)
    for offset, day in enumerate([-9, 0, 0, 0]):
        at = DAY + day * 86_400_000
        value = codec.encode(decision_of(1, at=at, offset=offset))
        audit_records(settings, kafka_rows([value], topic="mutation-decisions", timestamps=[at]))
    keep = ("--set", "audit.keep_days.decisions=5")

    def maintain():
        done = run("maintain", "decisions", "--yes", "--output", "json", *where, *keep, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (table,) = json.loads(done.stdout)["tables"]
        return table

    def files():
        stored = stored_files(settings)
        folders = [folder for folder in stored.names("tables/decisions") if folder.startswith("date=")]
        return {folder: len(stored.names(f"tables/decisions/{folder}")) for folder in folders}

    first = maintain()
    assert (first["rows_deleted"], first["files_compacted"], first["files_removed"]) == (1, 3, 0)
    assert files() == {"date=2026-11-12": 1, "date=2026-11-21": 4}
    table = DeltaTable(settings.storage.table("decisions"), storage_options=settings.storage.deltalake())
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    export = f"{server.endpoint}/{BUCKET}/maintained/tables/decisions/export.csv"
    urlopen(Request(export, b"an operator's own", method="PUT")).close()  # noqa: S310 the server of this test
    assert maintain()["files_removed"] == 4
    assert files() == {"date=2026-11-21": 1}
    assert "export.csv" in stored_files(settings).names("tables/decisions")
    assert sorted(row["source"]["offset"] for row in read_table(settings, "decisions")) == [1, 2, 3]


def test_one_of_two_creators_of_the_same_file_succeeds(s3_spark, in_s3):
    files = open_files(s3_spark, in_s3)
    start = threading.Barrier(4)

    def create(text):
        start.wait()
        return files.create("leases/a/1", text)

    with ThreadPoolExecutor(4) as pool:
        created = dict(zip("0123", pool.map(create, "0123"), strict=True))
    (winner,) = [text for text, succeeded in created.items() if succeeded]
    assert files.read("leases/a/1") == winner


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(s3_spark, in_s3, monkeypatch):
    """The holder of a lease replaces its file at each renewal, and others read it."""
    files, opened = open_files(s3_spark, in_s3), []

    def replaced(path):
        opened.append(real.open(path))
        if len(opened) == 1:
            files.write("leases/enforce/1", "after")
        return opened[-1]

    files.write("leases/enforce/1", "before the renewal")
    real = files._files  # noqa: SLF001 the moment is between two requests of Hadoop
    monkeypatch.setattr(files, "_files", SimpleNamespace(open=replaced, createFile=real.createFile, close=real.close))
    assert files.read("leases/enforce/1") == "after"
    assert len(opened) == 2
    files.close()


def test_spark_is_warmed_in_a_folder_of_this_machine(s3_spark, in_s3):
    prepare_topics(in_s3)
    assert warm(DeploymentSession.on(s3_spark, in_s3)) > 0


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ((501, "NotImplemented"), "does not support conditional writes"),
        ((405, "MethodNotAllowed"), "does not support conditional writes"),
        ((400, "InvalidArgument"), "does not support conditional writes"),
        ((403, "AccessDenied"), "AccessDenied"),
        ((409, "ConditionalRequestConflict"), False),  # with another writer; who creates a lease then reads it again
        ((412, "PreconditionFailed"), False),
    ],
)
def test_a_store_that_refuses_conditional_writes_is_told_from_one_that_refuses_the_writer(s3_spark, answer, outcome):
    """The stores of https://github.com/ceph/s3-tests/issues/218 and others; each answers in a way of its own."""
    with rejecting_store() as store:
        store.answer, store.conditional = (404, "NoSuchKey"), answer
        s3_spark._jsc.hadoopConfiguration().set("fs.s3a.endpoint", f"http://127.0.0.1:{store.server_port}")  # noqa: SLF001
        files = open_files(s3_spark, store_settings(store.server_port))
        if outcome is False:
            assert files.create("leases/enforce/1", "text") is False
        else:
            with pytest.raises((MutationQuotaError, Py4JJavaError), match=outcome) as raised:
                files.create("leases/enforce/1", "text")
            assert (raised.type is MutationQuotaError) == (answer[0] != 403)
        files.close()


def test_a_job_of_another_machine_holds_its_lease_until_it_has_ended(s3_spark, in_s3, caplog):
    files = open_files(s3_spark, in_s3)
    here = Holder.here(os.getpid(), None)
    there = msgspec.structs.replace(Holder.here(os.getpid(), None), machine="another", host="other-host")

    def lease(holder):
        return Lease(files, LeaseWatch("enforce"), 6, holder)

    with (
        hold_lease(lease(there), HaltTimer(s3_spark), pytest.fail, lambda: True),
        pytest.raises(LeaseError, match="another enforce is running on"),
        hold_lease(lease(here), HaltTimer(s3_spark), pytest.fail, lambda: True),
    ):
        pass
    lease(there).claim()
    lease(here).claim()
    assert "waiting until its lease is renewed or expires, at most 6 s" in caplog.text
    assert "does not support conditional writes" not in caplog.text
