"""A table that is written and maintained for long, compared with itself when it was new: it grows by a file a day."""

from datetime import timedelta
from typing import NamedTuple

from tests.unit.jobs.audit.upkeep.conftest import NOON

DAYS = 6
COMMITS = 30
"""Of a day, by the audit; upkeep takes place after each third of them."""

MORE_COMMITS = 4
"""Of a day, by upkeep, at most."""

KEPT_DAYS = 2
"""How long the log is kept, and files that are no longer used."""

INTERVAL = 10
"""The commits from one checkpoint to the next. As the days are short here, it is, too."""


class Sizes(NamedTuple):
    """What is listed and read to write, to open and to query a table."""

    log_files: int
    commits_after_checkpoint: int
    unused_files: int
    live_files: int
    tombstones: int
    checkpoint_bytes: int


def sizes_of(kept):
    log = [each.name for each in kept.log.iterdir()]
    after = [name for name in log if name.endswith(".json") and name[:20] > kept.checkpoint.name[:20]]
    live = sum(kept.files.values())
    unused = len(list(kept.path.rglob("date=*/*.parquet"))) - live
    kept.table.create_checkpoint()  # at the same time of each day, so that their sizes can be compared
    return Sizes(len(log), len(after), unused, live, len(kept.tombstones), kept.checkpoint.stat().st_size)


def test_an_old_table_is_as_small_as_a_new_one_but_for_a_file_a_day(kept):
    kept.table.alter.set_table_properties({"delta.checkpointInterval": str(INTERVAL)})
    sizes = []
    for day in range(DAYS):
        for _ in range(3):
            kept.commit(COMMITS // 3, day=day)
            kept.maintain(NOON + timedelta(days=day))
        sizes.append(sizes_of(kept))
        kept.age(1)
    assert kept.offsets == list(range(1, DAYS * COMMITS + 1))
    assert kept.table.version() > DAYS * COMMITS
    assert [each.live_files for each in sizes] == list(range(1, DAYS + 1))

    # The commits of two days, and of the third those after the last checkpoint that is old enough to begin with.
    most_commits = (KEPT_DAYS + 1) * (COMMITS + MORE_COMMITS)
    for each in sizes:
        assert each.log_files <= most_commits * (1 + 1 / INTERVAL) + INTERVAL
        assert each.commits_after_checkpoint < INTERVAL
        assert each.unused_files <= most_commits
        assert each.tombstones <= most_commits
    new, old = sizes[KEPT_DAYS], sizes[-1]
    bytes_a_file = 3000  # its statistics, above all
    assert old.checkpoint_bytes - new.checkpoint_bytes <= (old.live_files - new.live_files) * bytes_a_file
