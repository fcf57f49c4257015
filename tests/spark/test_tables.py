"""The audit's tables: written to the end after a crash at any point, and never in the place of something else."""

import json

import pytest

import jobs.audit
from jobs.audit import keep
from jobs.storage import table_path
from jobs.tables import TABLES, prepare_tables
from quota.errors import MutationQuotaError
from tests.spark.rows import frame, kafka_rows
from tests.spark.test_audit_rows import DECISION


@pytest.fixture
def settings(base_settings, tmp_path):
    storage = base_settings.storage.model_copy(update={"root": str(tmp_path / "a root with spaces")})
    return base_settings.model_copy(update={"storage": storage})


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_batch_that_broke_off_between_two_tables_is_written_to_the_end(spark, settings, monkeypatch, written):
    """The audit dies after so many of its three tables; the same batch comes again."""
    prepare_tables(spark, settings)
    letter = {"error": "e", "value": "{", "timestamp": 5, "source": DECISION["source"]}
    quota = {"entity": {"user": "alice"}, "controller_mutation_rate": 5}
    by_topic = {"mutation-decisions": DECISION, "mutation-dead-letters": letter, "mutation-quotas": quota}
    rows = [
        row for topic, value in by_topic.items() for row in kafka_rows([json.dumps(value).encode()] * 2, topic=topic)
    ]
    append_new, done = jobs.audit.append_new, []

    def append_some(*args):
        if len(done) == written:
            raise RuntimeError("killed")
        append_new(*args)
        done.append(args)

    with monkeypatch.context() as patched:
        patched.setattr(jobs.audit, "append_new", append_some)
        with pytest.raises(RuntimeError, match="killed"):
            keep(settings, frame(spark, rows), 0)
    keep(settings, frame(spark, rows), 0)
    keep(settings, frame(spark, rows), 1)

    counts = {table.name: spark.read.format("delta").load(table_path(settings, table.name)).count() for table in TABLES}
    assert counts == {"decisions": 1, "dead_letters": 1, "quota_changes": 2}


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_what_is_no_table_of_ours_is_left_alone_and_named(spark, settings, kind):
    path = table_path(settings, "decisions")
    spark.range(3).write.format(kind).save(path)
    with pytest.raises(MutationQuotaError, match="decisions is no table of this version") as raised:
        prepare_tables(spark, settings)
    assert "\n" not in str(raised.value)
    assert spark.read.format(kind).load(path).count() == 3
