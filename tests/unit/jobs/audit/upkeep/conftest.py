"""Tables of many small files, and time that passes for them."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.preparation import prepare_tables
from jobs.audit.tables.specs import DECISIONS
from jobs.audit.upkeep.plan import REGULAR, keep_days, plan_upkeep
from jobs.audit.upkeep.work import maintain
from tests.support.factories import decided
from tests.support.tables import DAY, append_rows, decision_row, names_in

DAY_MS = 86_400_000
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
"""Noon of the day `DAY`."""


class Decisions:
    """The table of decisions of a deployment, with a file for each commit."""

    def __init__(self, settings):
        self.settings = settings
        self.path = Path(settings.storage.table("decisions"))
        self._rows = 0
        prepare_tables(settings, names_in(settings))

    def commit(self, files, *, day=0):
        """Append files of one row each, a number of days after `DAY`."""
        for _ in range(files):
            self._rows += 1
            row = decision_row(decided(1, at=DAY + day * DAY_MS + self._rows, offset=self._rows))
            append_rows(self.settings, "decisions", row)

    @property
    def table(self):
        return DeltaTable(self.settings.storage.table("decisions"))

    @property
    def offsets(self):
        """The offsets of all rows."""
        rows = self.table.to_pyarrow_dataset().to_table(columns=["source"])["source"].to_pylist()
        return sorted(row["offset"] for row in rows)

    @property
    def files(self):
        """The number of the table's files by date."""
        dates = [each["partition"]["date"] for each in self.table.get_add_actions().to_struct_array().to_pylist()]
        return {str(date): dates.count(date) for date in sorted(set(dates))}

    def plan(self, now=NOON, limits=REGULAR):
        return plan_upkeep(self.table, "decisions", keep_days(self.settings)[DECISIONS], now, limits)

    def maintain(self, now=NOON, limits=REGULAR):
        return maintain(TableStore.of(self.settings), DECISIONS, self.plan(now, limits), now)

    def remove_unused_files_at_once(self):
        """Retain no files for readers of earlier versions, which tests cannot make older."""
        self.table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})

    def age(self, days):
        """Have all files of the table be older by some days."""
        for each in self.path.rglob("*"):
            if each.is_file():
                then = each.stat().st_mtime - timedelta(days=days).total_seconds()
                os.utime(each, (then, then))


@pytest.fixture
def kept(settings):
    return Decisions(settings)


@pytest.fixture
def now():
    """The time at which files are created."""
    return datetime.fromtimestamp(time.time(), UTC)
