"""Records are appended to the tables once each: through crashes, repeated records and processes that hang on."""

import json
import random
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import hypothesis
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.exceptions import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

import jobs.audit.append
from jobs import log_lines
from jobs.audit.append import AuditConfig, append_records
from jobs.audit.query import write_batch
from jobs.audit.tables import TABLES
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.support.factories import DECISION_RECORD as DECISION
from tests.support.rows import kafka_rows
from tests.support.tables import DAY, audit_records, read_table
from tests.unit.jobs.audit.conftest import settings_of

TOPIC = "mutation-decisions"


def decision(offset, *, partition=0, day=0, **fields):
    """Return the value of a decision on the request at an offset."""
    source = {"topic": "mutation-requests", "partition": partition, "offset": offset}
    times = {"timestamp": DAY + day * 86_400_000, "retry_at": DAY + day * 86_400_000}
    return json.dumps(DECISION | {"decision_id": f"t-{partition}-{offset}", "source": source} | times | fields).encode()


def letter(offset, **fields):
    source = {"topic": "mutation-requests", "partition": 0, "offset": offset}
    return json.dumps({"error": "e", "value": "{", "timestamp": 5, "source": source} | fields).encode()


def audit(settings, *batches):
    """Audit decisions as a micro-batch, which a worker gets in these parts."""
    audit_records(settings, *(kafka_rows(values, topic=TOPIC, timestamps=[DAY] * len(values)) for values in batches))


def ids(settings):
    return [row["decision_id"] for row in read_table(settings, "decisions")]


def counts(settings):
    return {table.name: len(read_table(settings, table.name)) for table in TABLES}


def commits(settings, name="decisions"):
    return DeltaTable(settings.storage.table(name)).version()


def of_each_topic():
    """Two records of each topic; those of a quota are different records."""
    quota = json.dumps({"entity": {"user": "alice"}, "controller_mutation_rate": 5}).encode()
    by_topic = {TOPIC: decision(7), "mutation-dead-letters": letter(8), "mutation-quotas": quota}
    return [row for topic, value in by_topic.items() for row in kafka_rows([value] * 2, topic=topic, timestamps=[5, 6])]


@contextmanager
def killed_after(written):
    """Have the audit die inside the block, when it begins one more commit than so many."""
    write, done = jobs.audit.append.write_deltalake, []

    def write_some(*args, **kwargs):
        if len(done) == written:
            raise RuntimeError("killed")
        write(*args, **kwargs)
        done.append(args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jobs.audit.append, "write_deltalake", write_some)
        yield


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_batch_interrupted_between_two_tables_is_completed(settings, written):
    """The audit dies after so many of its three tables; the same batch comes again, and then once more."""
    with killed_after(written), pytest.raises(RuntimeError, match="killed"):
        audit_records(settings, of_each_topic())
    audit_records(settings, of_each_topic())
    assert counts(settings) == {"decisions": 1, "dead_letters": 1, "quota_changes": 2}
    versions = [commits(settings, table.name) for table in TABLES]
    audit_records(settings, of_each_topic())
    assert [commits(settings, table.name) for table in TABLES] == versions == [1, 1, 1]


def test_the_first_copy_of_a_record_stays(settings):
    audit(settings, [decision(1, outcome="ADMITTED"), decision(1, outcome="REJECTED")])
    audit(settings, [decision(1, outcome="PARTIAL")])
    assert [row["outcome"] for row in read_table(settings, "decisions")] == ["ADMITTED"]


def test_a_dead_letter_is_stored_once_although_its_copies_have_different_dates(settings):
    """A record without a timestamp gets that of its copy."""
    for day in (0, 1):
        rows = kafka_rows([letter(3, timestamp=None)], topic="mutation-dead-letters", timestamps=[DAY * day + 5])
        audit_records(settings, rows)
    assert counts(settings)["dead_letters"] == 1


def test_only_files_that_may_have_copies_are_read(settings):
    """A table has thousands of files, and copies are rare: files with other offsets or dates are not read."""
    audit(settings, [decision(number) for number in range(10)])
    audit(settings, [decision(number, day=1) for number in range(5)])
    for file in Path(settings.storage.table("decisions")).rglob("*.parquet"):
        file.write_bytes(b"")  # reading it fails
    audit(settings, [decision(number, day=1) for number in range(5, 8)])
    audit(settings, [decision(11)])
    with pytest.raises(MutationQuotaError, match="decisions cannot be read or written"):
        audit(settings, [decision(9)])


def test_an_append_does_not_clean_the_log_which_would_list_all_of_it(settings):
    """Upkeep does that."""
    audit(settings, [decision(0)])
    properties = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 seconds"}
    DeltaTable(settings.storage.table("decisions")).alter.set_table_properties(properties)
    log = Path(settings.storage.table("decisions"), "_delta_log")
    before = len(list(log.glob("*.json")))
    for number in range(1, 6):
        audit(settings, [decision(number)])
    assert len(list(log.glob("*.json"))) == before + 5


def test_a_batch_of_several_days_has_one_file_per_day_and_one_commit(settings):
    audit(settings, [decision(number, day=number % 3) for number in range(30)])
    table = DeltaTable(settings.storage.table("decisions"))
    assert len(table.file_uris()) == 3
    assert table.version() == 1
    assert len(ids(settings)) == 30


def large_parts(count):
    """Return parts of a batch, each above the size of a commit."""
    return [[decision(offset, request_id="r" * 20_000)] for offset in range(count)]


@pytest.mark.parametrize("written", [1, 2])
def test_a_large_batch_takes_several_commits_and_may_be_interrupted_between_them(settings, monkeypatch, written):
    monkeypatch.setattr(jobs.audit.append, "_COMMITTED_BYTES", 15_000)
    audit(settings)
    with killed_after(written), pytest.raises(RuntimeError, match="killed"):
        audit(settings, *large_parts(4))
    assert len(ids(settings)) == written
    audit(settings, *large_parts(4))
    assert sorted(ids(settings)) == [f"t-0-{offset}" for offset in range(4)]
    assert commits(settings) == 4
    audit(settings, *large_parts(4))
    assert commits(settings) == 4


@pytest.fixture
def meanwhile(monkeypatch):
    """Do something once, between the time when a batch has opened its table and that of its commit."""

    def do(action):
        write, done = jobs.audit.append.write_deltalake, []

        def act_and_write(*args, **kwargs):
            if not done:
                done.append(True)
                action()
            write(*args, **kwargs)

        monkeypatch.setattr(jobs.audit.append, "write_deltalake", act_and_write)

    return do


def test_two_audits_with_separate_checkpoints_add_nothing_twice(settings, meanwhile):
    audit(settings)
    meanwhile(lambda: audit(settings, [decision(1), decision(2)]))
    audit(settings, [decision(2), decision(3)])
    assert sorted(ids(settings)) == ["t-0-1", "t-0-2", "t-0-3"]


def test_a_concurrent_change_by_an_operator_does_not_fail_a_batch(settings, meanwhile):
    audit(settings, [decision(1), decision(2, day=1)])

    def change():
        table = DeltaTable(settings.storage.table("decisions"))
        table.delete("date = '2026-11-21'")
        table.alter.add_columns([Field("note", "string")])

    meanwhile(change)
    audit(settings, [decision(3, day=1)])
    assert sorted(ids(settings)) == ["t-0-2", "t-0-3"]


def test_a_table_that_changes_all_the_time_is_reported(settings, monkeypatch):
    audit(settings, [decision(1)])

    def reject(*_, **__):
        raise CommitFailedError("Concurrent transaction failed.\nand more")

    pauses = []
    monkeypatch.setattr(jobs.audit.append, "write_deltalake", reject)
    monkeypatch.setattr(jobs.audit.append, "time", SimpleNamespace(sleep=pauses.append))
    with pytest.raises(
        MutationQuotaError,
        match=r"decisions cannot be written: Concurrent transaction failed: and more; another program",
    ):
        audit(settings, [decision(2)])
    assert [0.05 <= pauses[0] <= 0.1, 0.1 <= pauses[1] <= 0.2, 0.2 <= pauses[2] <= 0.4, 0.4 <= pauses[3] <= 0.8] == [
        True
    ] * len(pauses)


LATE = 253_402_300_800_000
"""The first millisecond of the year 10000, which has no date in Python."""


@pytest.mark.parametrize("stamp", [-1, LATE, 2**62, 2**63 - 1, None])
def test_no_timestamp_stops_the_audit(settings, stamp):
    """The timestamp of a decision, a dead letter or a quota is that of its record, or Kafka's."""
    quota = json.dumps({"entity": {"user": "alice"}, "controller_mutation_rate": 5}).encode()
    values = {
        TOPIC: [decision(1), decision(2, timestamp=stamp), b"no record"],
        "mutation-dead-letters": [letter(3), letter(4, timestamp=stamp), b"no record"],
        "mutation-quotas": [quota, b"no quota"],
    }
    rows = [
        row
        for topic, records in values.items()
        for row in kafka_rows(records, topic=topic, timestamps=[stamp] * len(records))
    ]
    audit_records(settings, rows)
    stored = counts(settings)
    assert stored["decisions"] == 1
    assert sum(stored.values()) == 8
    assert all(row["date"] is not None for table in TABLES for row in read_table(settings, table.name))


def test_a_worker_gets_only_the_secrets_of_the_tables():
    given = ["kafka.security_protocol=SASL_SSL", "kafka.sasl_mechanism=PLAIN", "kafka.sasl_username=u"]
    given += ["kafka.sasl_password=hunter2", "storage.root=s3a://b/r", "storage.options.fs.s3a.secret.key=s3cret"]
    settings = load_settings(given, environment={}, with_default_file=False)
    sent = cloudpickle.dumps(partial(append_records, AuditConfig.of(settings)))
    assert b"hunter2" not in sent
    assert b"s3cret" in sent
    assert "s3cret" not in repr(AuditConfig.of(settings))


@hypothesis.settings(max_examples=hypothesis.settings.default.max_examples // 8)  # of some ten commits each
@given(st.integers(0, 2**32))
def test_each_record_is_stored_once_in_any_reruns(tmp_path_factory, seed):
    """Decisions of several partitions, repeated at random over batches, some of which are repeated whole."""
    chance = random.Random(seed)
    settings = settings_of(tmp_path_factory.mktemp("root"))
    sent = []
    for _ in range(5):
        fresh = [(chance.randrange(3), chance.randrange(40)) for _ in range(chance.randint(0, 12))]
        again = chance.choices(sent, k=3) if sent else []
        rows = [decision(offset, partition=partition) for partition, offset in fresh + again]
        sent += fresh
        audit(settings, rows[: chance.randint(0, len(rows))])  # its input ends early
        for _ in range(chance.randint(1, 2)):
            audit(settings, rows)
    stored = ids(settings)
    assert len(stored) == len(set(stored))
    assert set(stored) == {f"t-{partition}-{offset}" for partition, offset in sent}


def test_only_the_offsets_of_a_batch_are_read_of_each_partition(settings, monkeypatch):
    """The partitions of a topic have offsets of different sizes; a topic may have any name in a record."""
    far = 10_000_000
    audit(settings, [decision(offset) for offset in range(100)])
    audit(settings, [decision(far + offset, partition=1) for offset in range(100)])
    quoted = json.loads(decision(7)) | {"source": {"topic": "it's", "partition": 0, "offset": 7}}
    read, scan = [], DeltaTable.scan

    def counted(*args, **options):
        rows = pa.table(scan(*args, **options))
        read.append(rows.num_rows)
        return rows

    monkeypatch.setattr(DeltaTable, "scan", counted)
    audit(settings, [decision(99), decision(100), decision(far, partition=1), json.dumps(quoted).encode()])
    assert read == [2]
    assert len(ids(settings)) == 100 + 100 + 2  # offset 100, and the one of the other topic


def test_what_a_batch_logs_has_the_query_and_the_batch(settings):
    logged = []
    write_batch(settings, Mock(after_batch=lambda: logged.append(log_lines._batch.get())), Mock(), 7)  # noqa: SLF001
    assert [*logged, log_lines._batch.get()] == [{"query": "audit", "batch": 7}, {}]  # noqa: SLF001
