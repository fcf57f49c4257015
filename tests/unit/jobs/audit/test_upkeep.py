"""Rows older than the configured retention are deleted, and unused files are removed."""

import os
from datetime import UTC, date, datetime, timedelta

import pytest
from deltalake import DeltaTable, write_deltalake

import jobs.audit.upkeep
from jobs.audit.tables import DECISIONS, TableStore
from jobs.audit.upkeep import REGULAR, THOROUGH, FileLimits, PlannedUpkeep, maintain
from tests.unit.jobs.audit.conftest import NOON


def test_rows_are_retained_for_the_configured_days_before_the_newest_date(keeping):
    kept = keeping(2)
    for day in (-3, -2, -1, 0):
        kept.commit(1, day=day)
    result = kept.maintain(limits=THOROUGH)
    assert result.rows_deleted == 1
    assert list(kept.files) == ["2026-11-19", "2026-11-20", "2026-11-21"]


def test_rows_that_arrive_after_the_plan_are_counted_when_they_are_deleted(keeping):
    kept = keeping(2)
    kept.commit(1, day=-9)
    kept.commit(1)
    plan = kept.plan(limits=THOROUGH)
    assert plan.expired_rows == 1
    kept.commit(2, day=-9)
    assert maintain(TableStore.of(kept.settings), DECISIONS, plan, NOON).rows_deleted == 3
    assert kept.offsets == [2]


@pytest.mark.parametrize(
    ("days", "now", "first_kept"),
    [
        ((-9, 0), NOON, date(2026, 11, 16)),
        ((-9, 0), datetime(2099, 1, 1, tzinfo=UTC), date(2026, 11, 16)),  # the clock is wrong
        ((-9, 25_000), NOON, date(2026, 11, 16)),  # a record is of the future
    ],
)
def test_neither_a_wrong_clock_nor_a_record_of_the_future_deletes_rows(keeping, days, now, first_kept):
    kept = keeping(5)
    for day in days:
        kept.commit(1, day=day)
    assert kept.plan(now).first_kept == first_kept


def test_an_append_only_table_is_left_unchanged_with_a_reason(keeping):
    kept = keeping(1)
    kept.commit(1, day=-9)
    kept.commit(1)
    kept.table.alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(Exception, match="append-only"):
        kept.maintain(limits=THOROUGH)
    assert kept.offsets == [1, 2]


def test_files_that_no_recent_version_uses_are_removed_after_two_days(kept, now):
    kept.commit(3)
    kept.maintain(limits=THOROUGH)
    orphan = kept.path / "date=2026-11-21" / "part-of-a-commit-that-was-cut-short.parquet"
    orphan.touch()
    assert len(list(kept.path.rglob("*.parquet"))) == 5  # three, one in their place, and the orphan
    assert kept.maintain(limits=THOROUGH).files_removed == 0
    os.utime(orphan, ((now - timedelta(days=2, hours=1)).timestamp(),) * 2)
    assert kept.maintain(limits=THOROUGH).files_removed == 1
    assert not orphan.exists()
    assert kept.offsets == [1, 2, 3]


def test_files_of_others_below_a_table_stay(kept, now):
    kept.commit(1)
    folders = (kept.path / "date=2026-11-21", kept.path / "_change_data" / "date=2026-11-21")
    orphans = [folder / "part-of-a-commit-that-was-cut-short.parquet" for folder in folders]
    names = ("export.csv", "README", "metadata/v1.json", "date=2026-11-21/a copy.parquet", "date=x/notes.txt")
    others = [kept.path / name for name in names]
    for file in (*orphans, *others):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, ((now - timedelta(days=3)).timestamp(),) * 2)
    (planned,) = PlannedUpkeep.of(kept.settings, [DECISIONS]).preview()
    assert planned.files_removed == 2
    assert kept.maintain(limits=THOROUGH).files_removed == 2
    assert [file.exists() for file in (*orphans, *others)] == [False, False, *[True] * 5]
    assert kept.offsets == [1]


def test_the_daily_part_is_due_once_a_day_across_programs(kept, now):
    kept.commit(1)
    assert not kept.plan(now).daily
    later = now + timedelta(days=1, minutes=1)
    assert kept.plan(later).daily
    kept.maintain(later)
    assert not kept.plan(later + timedelta(hours=23)).daily
    assert kept.plan(later + timedelta(hours=25)).daily
    assert kept.plan(later - timedelta(days=300)).daily  # the clock was wrong, and is right again


def test_the_daily_part_cleans_the_log(kept, now):
    kept.table.alter.set_table_properties(
        {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 seconds"}
    )
    kept.commit(9)
    assert len(list(kept.log.glob("*.json"))) > 9
    kept.maintain(now + timedelta(days=2))
    assert len(list(kept.log.glob("*.json"))) < 5
    assert kept.offsets == list(range(1, 10))


def test_rows_of_an_unknown_date_are_retained(keeping):
    kept = keeping(1)
    kept.commit(2)
    rows = kept.table.to_pyarrow_dataset().to_table()
    undated = rows.set_column(rows.schema.get_field_index("date"), "date", [[None] * 2])
    write_deltalake(kept.table, undated, mode="append")
    kept.maintain(NOON + timedelta(days=90), THOROUGH)
    assert kept.offsets == [1, 1, 2, 2]


FEW = FileLimits(newest=5, older=2)


def test_the_newest_date_is_compacted_when_it_has_more_small_files_than_its_limit(kept):
    kept.commit(5)
    assert kept.plan(limits=FEW).compact == {}
    kept.commit(1)
    assert kept.plan(limits=FEW).compact == {NOON.date(): 6}
    result = kept.maintain(limits=FEW)
    assert (result.files_compacted, result.files_written) == (6, 1)
    assert kept.files == {"2026-11-21": 1}
    assert kept.offsets == [1, 2, 3, 4, 5, 6]


def test_past_dates_keep_fewer_files_and_the_latest_is_first(kept):
    for day, files in ((-3, 2), (-2, 3), (-1, 3), (0, 5)):
        kept.commit(files, day=day)
    assert [str(day) for day in kept.plan(limits=FEW).compact] == ["2026-11-20", "2026-11-19"]
    kept.maintain(limits=FEW)
    assert kept.files == {"2026-11-18": 2, "2026-11-19": 1, "2026-11-20": 1, "2026-11-21": 5}


def test_on_demand_each_date_is_compacted_to_one_small_file(kept):
    kept.commit(2, day=-1)
    kept.commit(2)
    kept.maintain(limits=THOROUGH)
    assert kept.files == {"2026-11-20": 1, "2026-11-21": 1}
    assert kept.plan(limits=THOROUGH).compact == {}


def test_large_files_are_left_unchanged(crowded, monkeypatch):
    (largest,) = {path.stat().st_size for path in list(crowded.path.rglob("*.parquet"))[:1]}
    monkeypatch.setattr(jobs.audit.upkeep, "TARGET_BYTES", largest)  # a small file has less than half of it
    assert crowded.plan().compact == {}


def test_rows_that_are_appended_meanwhile_stay(crowded, monkeypatch):
    plan = crowded.plan()
    compact = DeltaTable.optimize.fget

    def append_first(table):
        crowded.commit(1)
        return compact(table)

    monkeypatch.setattr(DeltaTable, "optimize", property(append_first))
    monkeypatch.setattr(type(crowded), "plan", lambda *_: plan)
    crowded.maintain()
    assert crowded.files == {"2026-11-21": 2}
    assert crowded.offsets == list(range(1, REGULAR.newest + 3))
