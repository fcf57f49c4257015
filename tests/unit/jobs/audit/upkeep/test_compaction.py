"""Small files become few, no row changes, and large files stay as they are."""

from deltalake import DeltaTable

import jobs.audit.upkeep.maintain
from jobs.audit.upkeep.maintain import REGULAR, THOROUGH
from tests.unit.jobs.audit.upkeep.conftest import NOON


def test_the_newest_date_is_compacted_when_it_has_more_small_files_than_its_limit(kept):
    kept.commit(REGULAR.newest)
    assert kept.plan().compact == {}
    kept.commit(1)
    assert kept.plan().compact == {NOON.date(): REGULAR.newest + 1}
    result = kept.maintain()
    assert (result.files_compacted, result.files_written) == (REGULAR.newest + 1, 1)
    assert kept.files == {"2026-11-21": 1}
    assert kept.offsets == list(range(1, REGULAR.newest + 2))


def test_past_dates_keep_fewer_files_and_the_latest_is_first(kept):
    kept.commit(REGULAR.older, day=-3)
    kept.commit(REGULAR.older + 1, day=-2)
    kept.commit(REGULAR.older + 1, day=-1)
    kept.commit(REGULAR.newest)
    assert [str(day) for day in kept.plan().compact] == ["2026-11-20", "2026-11-19"]
    kept.maintain()
    assert kept.files == {"2026-11-18": REGULAR.older, "2026-11-19": 1, "2026-11-20": 1, "2026-11-21": REGULAR.newest}


def test_on_demand_each_date_is_compacted_to_one_small_file(kept):
    kept.commit(2, day=-1)
    kept.commit(2)
    kept.maintain(limits=THOROUGH)
    assert kept.files == {"2026-11-20": 1, "2026-11-21": 1}
    assert kept.plan(limits=THOROUGH).compact == {}


def test_large_files_are_left_unchanged(kept, monkeypatch):
    kept.commit(REGULAR.newest + 1)
    (largest,) = {each.stat().st_size for each in list(kept.path.rglob("*.parquet"))[:1]}
    monkeypatch.setattr(jobs.audit.upkeep.maintain, "TARGET_BYTES", largest)  # a small file has less than half of it
    assert kept.plan().compact == {}


def test_rows_that_are_appended_meanwhile_stay(kept, monkeypatch):
    kept.commit(REGULAR.newest + 1)
    plan = kept.plan()
    compact = DeltaTable.optimize.fget

    def append_first(table):
        kept.commit(1)
        return compact(table)

    monkeypatch.setattr(DeltaTable, "optimize", property(append_first))
    monkeypatch.setattr(type(kept), "plan", lambda *_: plan)
    kept.maintain()
    assert kept.files == {"2026-11-21": 2}
    assert kept.offsets == list(range(1, REGULAR.newest + 3))
