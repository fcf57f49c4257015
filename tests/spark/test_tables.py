"""The audit's tables: written to the end after a crash at any point, and never in the place of something else."""

import json
import shutil
from datetime import date
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

import jobs.audit.query
from jobs.audit.query import write_batch
from jobs.audit.specs import DECISIONS, TABLES
from jobs.audit.tables import prepare_tables
from quota.errors import MutationQuotaError
from schemas import decisions
from tests.support.factories import DECISION_RECORD as DECISION
from tests.support.rows import frame, kafka_rows


@pytest.mark.parametrize("written", [1, 2])
def test_a_batch_that_broke_off_between_two_tables_is_written_to_the_end(spark, settings, monkeypatch, written):
    """The audit dies after so many of its three tables; the same batch comes again."""
    prepare_tables(spark, settings)
    letter = {"error": "e", "value": "{", "timestamp": 5, "source": DECISION["source"]}
    quota = {"entity": {"user": "alice"}, "controller_mutation_rate": 5}
    by_topic = {"mutation-decisions": DECISION, "mutation-dead-letters": letter, "mutation-quotas": quota}
    rows = [
        row for topic, value in by_topic.items() for row in kafka_rows([json.dumps(value).encode()] * 2, topic=topic)
    ]
    append_new, done = jobs.audit.query.append_new, []

    def append_some(*args, **kwargs):
        if len(done) == written:
            raise RuntimeError("killed")
        append_new(*args, **kwargs)
        done.append(args)

    with monkeypatch.context() as patched:
        patched.setattr(jobs.audit.query, "append_new", append_some)
        with pytest.raises(RuntimeError, match="killed"):
            write_batch(settings, frame(spark, rows), 0)
    write_batch(settings, frame(spark, rows), 0)
    write_batch(settings, frame(spark, rows), 1)

    counts = {
        table.name: spark.read.format("delta").load(settings.storage.table(table.name)).count() for table in TABLES
    }
    assert counts == {"decisions": 1, "dead_letters": 1, "quota_changes": 2}


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_what_is_no_table_of_ours_is_left_alone_and_named(spark, settings, kind):
    path = settings.storage.table("decisions")
    spark.range(3).write.format(kind).save(path)
    with pytest.raises(MutationQuotaError, match="decisions is no table of this version") as raised:
        prepare_tables(spark, settings)
    assert "\n" not in str(raised.value)
    assert spark.read.format(kind).load(path).count() == 3


def test_a_table_that_a_full_disk_left_without_a_first_commit_is_made(spark, settings):
    log = Path(settings.storage.table("decisions"), "_delta_log")
    Path(log, "_staged_commits").mkdir(parents=True)
    Path(log, ".00000000000000000000.json.2f1c.tmp").touch()
    prepare_tables(spark, settings)
    assert version_of(spark, settings, "decisions") == str(DECISIONS.version)


def test_a_log_that_has_lost_its_commits_is_left_alone(spark, settings):
    """What is left of it may be all that tells what the table held."""
    left = Path(settings.storage.table("decisions"), "_delta_log", "00000000000000000010.crc")
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    with pytest.raises(MutationQuotaError, match="no table of this version"):
        prepare_tables(spark, settings)
    assert left.exists()


def version_of(spark, settings, name):
    (row,) = DeltaTable.forPath(spark, settings.storage.table(name)).detail().collect()
    return row.properties["mutationQuota.schemaVersion"]


def older(spark, settings, schema, version):
    """The decisions table of an older program, with a row."""
    path = settings.storage.table("decisions")
    row = spark.createDataFrame([(date(2026, 1, 2), "t-0-0")], "date date, decision_id string")
    columns = {field.name: F.lit(None).cast(field.dataType) for field in schema if field.name not in row.columns}
    row = row.withColumns(columns).select(*schema.names)
    row.write.format("delta").partitionBy("date").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('mutationQuota.schemaVersion' = '{version}')")


def test_a_table_of_an_older_version_is_given_the_columns_it_lacks(spark, settings):
    """Two columns, and a field of the structs in a list; what is in the table stays, and batches are added."""
    schema = StructType([field for field in decisions.TABLE if field.name not in {"apply", "expires_at"}])
    elements = schema["topics"].dataType.elementType
    fewer = StructType([field for field in elements if field.name != "replication_factor"])
    schema = StructType(
        [field if field.name != "topics" else StructField("topics", ArrayType(fewer)) for field in schema]
    )
    older(spark, settings, schema, version=1)
    prepare_tables(spark, settings)
    assert version_of(spark, settings, "decisions") == str(decisions.VERSION)
    write_batch(settings, frame(spark, kafka_rows([json.dumps(DECISION).encode()], topic="mutation-decisions")), 0)
    table = spark.read.format("delta").load(settings.storage.table("decisions"))
    assert set(table.columns) == set(decisions.TABLE.names)
    assert "replication_factor" in table.schema["topics"].dataType.elementType.names
    assert sorted(row.decision_id for row in table.collect()) == sorted(["t-0-0", DECISION["decision_id"]])
    prepare_tables(spark, settings)


def test_a_table_of_another_version_that_does_not_fit_is_refused_with_what_to_do(spark, settings):
    """A newer one; then an older one, of which a column has another type."""
    prepare_tables(spark, settings)
    path = settings.storage.table("decisions")
    newer = decisions.VERSION + 1
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('mutationQuota.schemaVersion' = '{newer}')")
    with pytest.raises(MutationQuotaError, match=rf"newer program, as version {newer} .* start that one again"):
        prepare_tables(spark, settings)
    shutil.rmtree(path)
    other = [field if field.name != "quota" else StructField("quota", StringType()) for field in decisions.TABLE]
    older(spark, settings, StructType(other), version=1)
    with pytest.raises(MutationQuotaError, match=r"version 1 with other or missing columns: quota\); move it away"):
        prepare_tables(spark, settings)
    assert version_of(spark, settings, "decisions") == "1"
