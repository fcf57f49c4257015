"""The audit's tables: created once, upgraded to the current version, and never over something else."""

import json
import shutil
import socket
import time
from datetime import date
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from jobs.audit.tables import DECISIONS, TABLES, TableStore, missing_tables, prepare_tables
from jobs.storage.stored_files import QUICK
from quota.errors import MutationQuotaError
from quota.records.decision import BucketBefore
from quota.settings import load_settings
from schemas import tables, versions
from tests.support.factories import DECISION_RECORD as DECISION
from tests.support.object_store import rejecting_store, store_overrides, store_settings
from tests.support.rows import kafka_rows
from tests.support.tables import audit_records, names_in, read_table


def prepare(settings, *tables):
    prepare_tables(settings, names_in(settings), *tables)


def stored(settings, name="decisions"):
    return DeltaTable(settings.storage.table(name))


def version_of(settings):
    return stored(settings).metadata().configuration["mutationQuota.schemaVersion"]


def test_missing_tables_are_created_once(settings):
    assert missing_tables(settings) == ["decisions", "dead_letters", "quota_changes"]
    prepare(settings)
    prepare(settings)
    assert missing_tables(settings) == []
    for table in TABLES:
        opened = stored(settings, table.name)
        assert (opened.version(), opened.metadata().partition_columns) == (0, ["date"])
        assert StructType.fromJson(json.loads(opened.schema().to_json())) == table.schema  # with the columns' comments


def test_other_columns_are_another_version():
    """Tables of earlier versions get missing columns only where the version is higher."""
    columns = {
        table.name: (table.version, sha256(table.schema.simpleString().encode()).hexdigest()[:8]) for table in TABLES
    }
    assert columns == {
        "decisions": (10, "232a6083"),
        "dead_letters": (1, "9624068d"),
        "quota_changes": (4, "a33325dc"),
    }


BOUNDS = {
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 days",
    "delta.checkpointInterval": "30",
}


def test_the_log_of_an_older_table_is_bounded_unless_an_operator_has_set_bounds(settings):
    older(settings, tables.DECISIONS, str(versions.DECISIONS))
    stored(settings).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    prepare(settings)
    configuration = stored(settings).metadata().configuration
    assert {name: configuration[name] for name in BOUNDS} == BOUNDS | {"delta.logRetentionDuration": "interval 9 days"}


def give_feature(settings, feature, *, readers):
    """Have the table of decisions claim a feature, as an operator may turn it on by Spark."""
    log = Path(settings.storage.table("decisions"), "_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    features = {"writerFeatures": [feature], "readerFeatures": [feature] if readers else []}
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7} | features
    log.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize(
    ("feature", "readers", "verb"),
    [
        ("deletionVectors", True, "read"),
        ("rowTracking", False, "write"),
    ],
)
def test_a_table_with_an_unsupported_feature_is_rejected_with_its_name(settings, feature, readers, verb):
    prepare(settings)
    give_feature(settings, feature, readers=readers)
    with pytest.raises(MutationQuotaError, match=f"has the Delta feature {feature}, .* cannot {verb} .*DROP FEATURE"):
        prepare(settings)


@pytest.mark.parametrize("feature", ["appendOnly", "changeDataFeed"])
def test_other_features_are_accepted(settings, feature):
    prepare(settings)
    give_feature(settings, feature, readers=False)
    prepare(settings)
    audit_records(settings, kafka_rows([json.dumps(DECISION).encode()], topic="mutation-decisions"))
    assert len(read_table(settings, "decisions")) == 1


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_foreign_table_is_left_unchanged_and_named(settings, kind):
    path = Path(settings.storage.table("decisions"))
    path.mkdir(parents=True)
    if kind == "delta":
        write_deltalake(path, pa.table({"id": [1, 2, 3]}))
    else:
        (path / "part-0.parquet").write_bytes(b"theirs")
    before = sorted(path.rglob("*"))
    with pytest.raises(MutationQuotaError, match="decisions is not a table of this version") as raised:
        prepare(settings)
    assert "\n" not in str(raised.value)
    assert sorted(path.rglob("*")) == before


def test_a_table_left_without_a_first_commit_by_a_full_disk_is_created(settings):
    log = Path(settings.storage.table("decisions"), "_delta_log")
    Path(log, "_staged_commits").mkdir(parents=True)
    Path(log, ".00000000000000000000.json.2f1c.tmp").touch()
    prepare(settings)
    assert version_of(settings) == str(DECISIONS.version)


def test_a_log_that_has_lost_its_commits_is_left_unchanged(settings):
    """The rest of it may be the only record of the table's contents."""
    left = "00000000000000000010.checkpoint.parquet"
    file = Path(settings.storage.table("decisions"), "_delta_log", left)
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(MutationQuotaError, match=r"/decisions"):
        prepare(settings)
    assert [path.name for path in file.parent.iterdir()] == [left]


def older(settings, schema, version):
    """The decisions table of an older program, with a row."""
    path = settings.storage.table("decisions")
    columns = Schema.from_json(schema.json())
    property_ = {"mutationQuota.schemaVersion": version}
    made = DeltaTable.create(path, columns, partition_by="date", configuration=property_, raise_if_key_not_exists=False)
    row = {"date": date(2026, 1, 2), "decision_id": "t-0-0"}
    write_deltalake(made, pa.Table.from_pylist([row], pa.schema(columns.to_arrow())), mode="append")


def test_a_table_of_an_older_version_gains_its_missing_columns(settings):
    """Two columns, and a field of the structs in a list; what is in the table stays, and batches are added."""
    schema = StructType([field for field in tables.DECISIONS if field.name not in {"apply", "bucket_before"}])
    elements = schema["topics"].dataType.elementType
    fewer = StructType([field for field in elements if field.name != "replication_factor"])
    schema = StructType(
        [field if field.name != "topics" else StructField("topics", ArrayType(fewer)) for field in schema]
    )
    older(settings, schema, "1")
    prepare(settings)
    assert version_of(settings) == str(versions.DECISIONS)
    details = DECISION["topics"][0] | {"replication_factor": 3, "assignments": [[1]]}
    before, nulls = {"tokens": 55.0, "updated_at": 7, "quota": 5.0, "burst": 55.0}, BucketBefore.__struct_fields__[4:]
    value = json.dumps(DECISION | {"topics": [details], "apply": True, "bucket_before": before}).encode()
    audit_records(settings, kafka_rows([value], topic="mutation-decisions"))
    rows = {row["decision_id"]: row for row in read_table(settings, "decisions")}
    assert set(rows) == {"t-0-0", DECISION["decision_id"]}
    row = rows[DECISION["decision_id"]]
    (topic,) = row["topics"]
    assert set(row) == set(tables.DECISIONS.names)
    assert (row["bucket_before"], rows["t-0-0"]["bucket_before"]) == (before | dict.fromkeys(nulls), None)
    assert (row["apply"], topic["replication_factor"], topic["assignments"], topic["name"]) == (True, 3, [[1]], "t")
    version = stored(settings).version()
    prepare(settings)
    assert stored(settings).version() == version


def test_columns_that_an_operator_has_added_stay_and_are_null(settings):
    prepare(settings)
    stored(settings).alter.add_columns([Field("note", "string")])
    prepare(settings)
    audit_records(settings, kafka_rows([json.dumps(DECISION).encode()], topic="mutation-decisions"))
    (row,) = read_table(settings, "decisions")
    assert (row["note"], row["user"]) == (None, "alice")


def test_an_incompatible_table_of_another_version_is_rejected_with_advice(settings):
    """One table is newer; another is older, with a column of a different type."""
    prepare(settings)
    newer = versions.DECISIONS + 1
    stored(settings).alter.set_table_properties({"mutationQuota.schemaVersion": str(newer)}, raise_if_not_exists=False)
    with pytest.raises(MutationQuotaError, match=rf"newer program, as version {newer} .* start that program again"):
        prepare(settings)
    shutil.rmtree(settings.storage.table("decisions"))
    other = [field if field.name != "quota" else StructField("quota", StringType()) for field in tables.DECISIONS]
    older(settings, StructType(other), "1")
    with pytest.raises(MutationQuotaError, match=r"version 1 with different or missing columns: quota\); move it away"):
        prepare(settings)
    assert version_of(settings) == "1"


def quick_store(port):
    """Tables in the object store at a port, with few retries."""
    store = TableStore.of(store_settings(port))
    return TableStore(store.folder, {**store.options, **QUICK})


def test_other_threads_run_while_a_table_is_opened():
    """The store is one of these threads, so it could not respond otherwise. Another one renews a lease."""
    with rejecting_store() as store:
        store.answer = (404, "NoSuchKey")
        assert quick_store(store.server_port).has(DECISIONS) is False


def test_a_store_that_does_not_answer_delays_a_query_for_seconds_and_not_for_minutes():
    """A server that takes connections, and says nothing. deltalake itself would try again for three minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        overrides = [*store_overrides(silent.getsockname()[1]), "storage.table_options.timeout=200ms"]
        overrides.append("storage.table_options.RETRY_TIMEOUT=400ms")
        settings = load_settings(overrides, environment={}, with_default_file=False)
        began = time.monotonic()
        with pytest.raises(MutationQuotaError, match="operation timed out"):
            TableStore.of(settings).open(DECISIONS)
    assert time.monotonic() - began < 60


WRITTEN = "/srv/root/tables/decisions cannot be written: "
USED = "/srv/root/tables/decisions cannot be read or written: "
DISK = "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"
QUICKER = "Failed to commit transaction: a concurrent transaction deleted data this operation read"
APPEND_ONLY = "The transaction includes Remove action with data change but Delta table is append-only"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CommitFailedError(APPEND_ONLY), f"{WRITTEN}{APPEND_ONLY}"),
        (
            CommitFailedError(QUICKER),
            f"{WRITTEN}{QUICKER}; another program has changed the table meanwhile: run it again",
        ),
        (OSError(DISK), f"{USED}{DISK}; free some space there"),
        (
            OSError("Kernel error -> Generic error\n   \x1b[31m↳\x1b[0m no such disk\n"),
            f"{USED}Kernel error -> Generic error: no such disk; check that storage.root is reachable and complete",
        ),
    ],
)
def test_an_error_is_one_line_with_its_cause_and_advice(error, expected):
    with pytest.raises(MutationQuotaError) as raised, TableStore("/srv/root/tables", {}).errors(DECISIONS):
        raise error
    assert str(raised.value) == expected
