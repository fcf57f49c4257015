"""Each tenant by the minute: sums over the table of decisions, with late, duplicated and removed ones."""

import shutil
import threading
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import StructType

import jobs.audit.upkeep.schedule
from jobs.audit.effective import SPARK, count_topics, sum_mutations
from jobs.audit.minutes import start_minutes, update_minutes
from jobs.audit.tables.frames import read_table
from jobs.audit.tables.preparation import prepare_tables
from jobs.audit.tables.specs import DECISIONS, TENANT_MINUTES
from jobs.audit.upkeep.plan import THOROUGH, plan_upkeep
from jobs.spark.operator_advice import with_operator_advice
from jobs.spark.queries import check_queries, run_until
from quota.errors import MutationQuotaError
from quota.records.fields import MAX_EPOCH_MS
from tests.support.effective import OUTCOMES, effective_decisions, effective_sums
from tests.support.tables import (
    DAY,
    HOUR,
    MINUTE,
    append_rows,
    arrow_tables,
    create_table,
    decision,
    decision_row,
    names_in,
    write_tables,
)
from tests.support.waiting import until

NOON = DAY + 12 * HOUR
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALICE, BOB, PAYMENTS, NOBODY = '{"user":"alice"}', '{"user":"bob","client-id":"app"}', '{"group":"payments"}', "{}"
WAITED = {"request_throttle_ms": 0}
UNLIMITED = {"user_tag": "", "quota": None, "burst": None, "tokens": None}

DECIDED = [
    decision(NOON + 10_000, admitted=[60], tokens=-5.0),
    decision(NOON + 11_000, refused=[10, 20], tokens=-4.0, controller_throttle_ms=800, **WAITED),
    decision(NOON + 20_000, admitted=[500], tokens=-3.5, validate_only=True),
    decision(NOON + 30_000, admitted=[60, 1], tokens=46.5, repeats={"decision_id": "d", "topics": 1}),
    decision(NOON + 40_000, admitted=[2], refused=[7], tokens=44.5, controller_throttle_ms=200, **WAITED),
    decision(NOON + 59_999, admitted=[0], tokens=54.0, controller_throttle_ms=300, request_throttle_ms=900),
    decision(NOON + 60_000, admitted=[3], tokens=51.0, quota=6.0, burst=66.0),
    decision(NOON + 12_000, user="bob", client="app", admitted=[10, 12], shadow={"error_codes": [0, 89]}),
    decision(NOON + 13_000, user="admin", admitted=[7], **UNLIMITED),
    decision(NOON + 14_000, user="dave", admitted=[5], user_tag="", more_tags=[("group", "payments")]),
]
"""Alice in two minutes; the others in the first."""


@pytest.fixture
def process_all(spark, settings):
    """Run the query over what is there, as the command does."""

    def _process_all():
        with with_operator_advice(settings):
            run_until(threading.Event(), [start_minutes(spark, settings, once=True)])

    return _process_all


def kept(settings, *columns):
    """The table's rows by minute and tenant, or some columns of each."""
    rows = DeltaTable(settings.storage.table("tenant_minutes")).to_pyarrow_table().to_pylist()
    by_key = {((row["minute"] - START) // timedelta(minutes=1), row["tenant"]): row for row in rows}
    assert len(by_key) == len(rows)
    return {key: tuple(row[name] for name in columns) for key, row in sorted(by_key.items())} if columns else by_key


def decisions_table(settings):
    return DeltaTable(settings.storage.table("decisions"))


def refusal(action):
    """Return the one line of the error."""
    with pytest.raises(MutationQuotaError) as raised:
        action()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_minute_of_a_tenant_is_summed_up(settings, process_all):
    """Validations and the 60 that were charged before are decisions and not mutations."""
    write_tables(settings, decisions=DECIDED)
    process_all()
    assert kept(settings)[0, ALICE] == {
        "date": date(2026, 11, 21),
        "minute": START,
        "tenant": ALICE,
        "user_tag": "alice",
        "client_tag": "",
        "more_tags": [],
        "decisions": 6,
        "topics_admitted": 4,
        "topics_refused": 3,
        "admitted": 60 + 1 + 2,
        "refused": 10 + 20 + 7,
        "charged": 63,
        "rate": 63 / 60,
        "tokens": 54.0,
        "lowest_tokens": -5.0,
        "lowest_share": -5 / 55,
        "quota": 5.0,
        "burst": 55.0,
        "throttled": 2,
        "mean_throttle_ms": 500.0,
        "longest_throttle_ms": 800,
    }


def test_spark_counts_what_is_effective(spark, settings):
    """Spark counts as `Charges` does, and as DuckDB does (`tests/unit/jobs/audit/test_effective.py`)."""
    decided = effective_decisions()
    append_rows(settings, "decisions", *map(decision_row, decided))
    columns = [total(outcome, SPARK) for total in (count_topics, sum_mutations) for outcome in OUTCOMES]
    rows = read_table(spark, settings, DECISIONS).selectExpr("decision_id", *columns).collect()
    assert {name: tuple(sums) for name, *sums in rows} == {each.decision_id: effective_sums(each) for each in decided}


def test_each_minute_and_each_tenant_has_a_row(settings, process_all):
    """Bob's quota in shadow would have charged 10; a user without a quota is charged nothing."""
    write_tables(settings, decisions=DECIDED)
    process_all()
    columns = ("admitted", "charged", "tokens", "lowest_share", "quota", "mean_throttle_ms", "longest_throttle_ms")
    assert kept(settings, *columns) == {
        (0, PAYMENTS): (5, 5, 55.0, 1.0, 5.0, 0.0, 0),
        (0, ALICE): (63, 63, 54.0, -5 / 55, 5.0, 500.0, 800),
        (0, BOB): (22, 10, 55.0, 1.0, 5.0, 0.0, 0),
        (0, NOBODY): (7, 0, None, None, None, 0.0, 0),
        (1, ALICE): (3, 3, 51.0, 51 / 66, 6.0, 0.0, 0),
    }


def test_the_same_decisions_again_change_nothing(spark, settings, process_all):
    """A batch runs again after a kill; a batch has nothing new; and all batches run again with a new checkpoint."""
    write_tables(settings, decisions=DECIDED)
    process_all()
    before = kept(settings)
    update_minutes(settings, spark.read.format("delta").load(settings.storage.table("decisions")))
    process_all()
    assert kept(settings) == before
    shutil.rmtree(settings.storage.checkpoint("minutes", 1))
    process_all()
    assert kept(settings) == before


def test_late_decisions_are_added_to_their_minute(settings, process_all):
    """One of alice's first minute and one of the day before come after newer ones."""
    write_tables(settings, decisions=DECIDED)
    process_all()
    before = kept(settings)
    write_tables(
        settings, decisions=[decision(NOON + 25_000, admitted=[4], tokens=-6.0), decision(DAY - 1, admitted=[9])]
    )
    process_all()
    after = kept(settings)
    changed = {key: row for key, row in after.items() if row != before.get(key)}
    sums = {key: (row["decisions"], row["admitted"], row["lowest_tokens"]) for key, row in changed.items()}
    assert sums == {(0, ALICE): (7, 67, -6.0), (-12 * 60 - 1, ALICE): (1, 9, 55.0)}
    assert before.keys() < after.keys()


def test_the_last_decision_is_the_one_with_the_largest_offset_after_a_clock_stepped_back(settings, process_all):
    rows = [decision(NOON + 500, tokens=40.0), decision(NOON + 400, tokens=-5.0)]
    for offset, row in enumerate(rows):
        row["source"] = row["source"] | {"offset": offset}
    write_tables(settings, decisions=rows)
    process_all()
    assert kept(settings, "tokens") == {(0, ALICE): (-5,)}


def test_the_very_last_minute_is_summed_up(spark, settings, process_all):
    """It has the latest time that a request may have."""
    write_tables(settings, decisions=[decision(MAX_EPOCH_MS, admitted=[3], latency_ms=0)])
    process_all()
    rows = spark.read.format("delta").load(settings.storage.table("tenant_minutes"))
    assert [row["admitted"] for row in rows.select("admitted").collect()] == [3]


def test_minutes_stay_when_decisions_are_removed(settings, process_all):
    """A tenant, then a day; later decisions are summed up, even in the minute from which others were removed."""
    write_tables(settings, decisions=DECIDED)
    process_all()
    before = kept(settings)
    decisions_table(settings).delete("user = 'bob'")
    write_tables(settings, decisions=[decision(NOON + 45_000, user="carol", admitted=[8])])
    process_all()
    decisions_table(settings).delete("date = '2026-11-21'")
    write_tables(settings, decisions=[decision(NOON + 24 * HOUR, admitted=[2])])
    process_all()
    new = {(0, '{"user":"carol"}'): (8,), (24 * 60, ALICE): (2,)}
    assert kept(settings, "admitted") == {key: (row["admitted"],) for key, row in before.items()} | new


def test_compacted_files_are_not_new_decisions(settings, process_all):
    for each in DECIDED:
        write_tables(settings, decisions=[each])
    process_all()
    before = kept(settings)
    decisions_table(settings).optimize.compact()
    process_all()
    assert kept(settings) == before


def test_the_small_files_of_minutes_are_compacted_regularly(settings, process_all, monkeypatch):
    """A batch of each minute would write 1440 files a day."""
    monkeypatch.setattr(jobs.audit.upkeep.schedule, "plan_upkeep", partial(plan_upkeep, limits=THOROUGH))
    for minute in range(3):
        write_tables(settings, decisions=[decision(NOON + minute * MINUTE, admitted=[minute])])
        process_all()
    assert kept(settings, "admitted") == {(0, ALICE): (0,), (1, ALICE): (1,), (2, ALICE): (2,)}
    assert len(DeltaTable(settings.storage.table("tenant_minutes")).file_uris()) == 1


def test_a_missing_file_of_minutes_is_distinguished_from_one_of_decisions(settings, process_all):
    write_tables(settings, decisions=DECIDED)
    process_all()
    for file in Path(settings.storage.table("tenant_minutes")).rglob("*.parquet"):
        file.unlink()
    write_tables(settings, decisions=[decision(NOON + 2000, admitted=[6])])
    said = refusal(process_all)
    assert "tables/tenant_minutes has lost files; move it away together with " in said
    shutil.rmtree(settings.storage.table("tenant_minutes"))
    shutil.rmtree(settings.storage.checkpoint("minutes", 1))
    process_all()
    assert kept(settings, "admitted")[0, ALICE] == (69,)


def test_without_the_audits_table_the_error_says_which_job_creates_it(process_all):
    assert "decisions: run mutation-quota audit first" in refusal(process_all)


def test_a_recreated_table_of_decisions_is_reported_and_sums_stay(settings, process_all):
    write_tables(settings, decisions=DECIDED)
    process_all()
    shutil.rmtree(settings.storage.table("decisions"))
    write_tables(settings, decisions=[decision(NOON + 5 * MINUTE, admitted=[6])])
    assert "checkpoints/minutes" in refusal(process_all)
    shutil.rmtree(settings.storage.checkpoint("minutes", 1))
    process_all()
    assert kept(settings, "admitted")[0, ALICE] == (63,)
    assert kept(settings, "admitted")[5, ALICE] == (6,)


def test_decisions_removed_before_they_were_read_are_reported(settings, process_all):
    write_tables(settings, decisions=DECIDED)
    process_all()
    write_tables(settings, decisions=[decision(NOON + 5 * MINUTE, admitted=[6])])
    table = decisions_table(settings)
    table.delete(f"decision_id = 'requests-0-{NOON + 5 * MINUTE}'")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    said = refusal(process_all)
    assert "File does not exist" in said
    assert "checkpoints/minutes: it then continues with the remaining decisions" in said
    shutil.rmtree(settings.storage.checkpoint("minutes", 1))
    process_all()
    assert len(kept(settings)) == 5


def test_a_checkpoint_without_its_table_is_reported(settings, process_all):
    """It would leave out all minutes that it has added up before."""
    write_tables(settings, decisions=DECIDED)
    process_all()
    shutil.rmtree(settings.storage.table("tenant_minutes"))
    assert "it is ahead of the tables, because tenant_minutes is missing; remove that folder" in refusal(process_all)


@pytest.mark.parametrize("version", [str(TENANT_MINUTES.version + 1), ""])
def test_an_incompatible_table_is_left_unchanged_and_named(settings, process_all, version):
    """One table is of a newer program, and one is foreign."""
    write_tables(settings, decisions=DECIDED)
    create_table(settings, TENANT_MINUTES, version)
    said = refusal(process_all)
    assert "tenant_minutes" in said
    assert "checkpoints/minutes" in said
    assert "all minutes are computed again from the stored decisions" in said
    assert not kept(settings)


def of_an_older_version(settings):
    """A table of decisions without what later versions have, with two of them."""
    fields = [field for field in DECISIONS.schema if field.name not in {"repeats", "shadow", "more_tags"}]
    older = replace(DECISIONS, schema=StructType(fields))
    rows = arrow_tables(decisions=DECIDED[:2])["decisions"].select(older.schema.names)
    write_deltalake(create_table(settings, older, "3"), rows, mode="append")


def test_decisions_of_an_older_version_are_summed_up_too(settings, process_all):
    """Then the audit adds what its table lacks, and there are more decisions."""
    of_an_older_version(settings)
    process_all()
    assert kept(settings, "admitted") == {(0, ALICE): (60,)}
    prepare_tables(settings, names_in(settings))
    write_tables(settings, decisions=[decision(NOON + 50_000, admitted=[4])])
    process_all()
    assert kept(settings, "admitted") == {(0, ALICE): (64,)}


def test_a_query_that_runs_while_the_table_gains_columns_fails_with_advice_to_restart(spark, settings):
    of_an_older_version(settings)
    often = settings.minutes.model_copy(update={"trigger_seconds": 0.2})
    query = start_minutes(spark, settings.model_copy(update={"minutes": often}))

    def look():
        with with_operator_advice(settings):
            check_queries([query])

    try:
        until(lambda: kept(settings))
        prepare_tables(settings, names_in(settings))
        write_tables(settings, decisions=[decision(NOON + 50_000, admitted=[4])])
        until(lambda: not query.isActive)
        assert "the audit has added columns to its table; start it again: it continues" in refusal(look)
    finally:
        query.stop()
