"""A table that is written and maintained for long: its files and its log do not grow with its age."""

from datetime import timedelta

from jobs.audit.upkeep.plan import REGULAR
from tests.unit.jobs.audit.upkeep.conftest import NOON

DAYS = 10
COMMITS = 30
"""Of a day; upkeep takes place after each third of them."""

KEPT_DAYS = 2
"""How long the log is kept."""


def test_files_and_log_are_bounded_by_days_and_not_by_commits(kept):
    kept.remove_unused_files_at_once()
    sizes = []
    for day in range(DAYS):
        for _ in range(3):
            kept.commit(COMMITS // 3, day=day)
            kept.maintain(NOON + timedelta(days=day))
        log = [each.name for each in (kept.path / "_delta_log").glob("*.json")]
        unused = len(list(kept.path.rglob("date=*/*.parquet"))) - sum(kept.files.values())
        sizes.append((len(log), unused))
        kept.age(1)
    assert kept.offsets == list(range(1, DAYS * COMMITS + 1))
    *closed, newest = kept.files.values()
    assert set(closed) == {1}
    assert newest <= REGULAR.newest
    # Of two days, and of the third the commits after the last checkpoint that is old enough to begin with.
    most_commits = (KEPT_DAYS + 1) * (COMMITS + 12) + 10
    assert [size for size in sizes if size[0] > most_commits or size[1] > COMMITS] == []
    assert sizes[-1][0] < DAYS * COMMITS / 2
    assert kept.table.version() > DAYS * COMMITS
