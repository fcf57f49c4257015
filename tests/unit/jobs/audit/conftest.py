"""Deployments whose tables are in a folder of the test, tables of many small files, and time that passes for them."""

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs.audit.append import AuditConfig, append_records
from jobs.audit.tables import DECISIONS, TableStore, prepare_tables
from jobs.audit.upkeep import REGULAR, keep_days, maintain, plan_upkeep
from quota.records import codec
from quota.settings import load_settings
from tests.support.factories import decided
from tests.support.rows import kafka_rows, record_batch
from tests.support.tables import DAY, names_in


def settings_of(folder, *more):
    root = f"storage.root={folder / 'a root with spaces'}"
    return load_settings([root, *more], environment={}, with_default_file=False)


@pytest.fixture
def settings(tmp_path):
    return settings_of(tmp_path)


DAY_MS = 86_400_000
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
"""Noon of the day `DAY`."""


class Decisions:
    """The table of decisions of a deployment, with a file for each commit."""

    def __init__(self, settings, rows=0):
        self.settings = settings
        self.path = Path(settings.storage.table("decisions"))
        self._rows = rows
        prepare_tables(settings, names_in(settings))

    def commit(self, files, *, day=0):
        """Append files of one row each, a number of days after `DAY`, as the audit does."""
        for _ in range(files):
            self._rows += 1
            value = codec.encode(decided(1, at=DAY + day * DAY_MS + self._rows, offset=self._rows))
            rows = kafka_rows([value], topic="mutation-decisions", timestamps=[DAY])
            list(append_records(AuditConfig.of(self.settings), iter([record_batch(rows)])))

    @property
    def table(self):
        return DeltaTable(self.settings.storage.table("decisions"))

    @property
    def log(self):
        """The folder of the table's log."""
        return self.path / "_delta_log"

    @property
    def offsets(self):
        """The offsets of all rows."""
        rows = self.table.to_pyarrow_dataset().to_table(columns=["source"])["source"].to_pylist()
        return sorted(row["offset"] for row in rows)

    @property
    def files(self):
        """The number of the table's files by date."""
        dates = [action["partition"]["date"] for action in self.table.get_add_actions().to_struct_array().to_pylist()]
        return {str(date): dates.count(date) for date in sorted(set(dates))}

    def plan(self, now=NOON, limits=REGULAR):
        return plan_upkeep(self.table, "decisions", keep_days(self.settings)[DECISIONS], now, limits)

    def maintain(self, now=NOON, limits=REGULAR):
        return maintain(TableStore.of(self.settings), DECISIONS, self.plan(now, limits), now)


@pytest.fixture
def kept(settings):
    return Decisions(settings)


@pytest.fixture(scope="session")
def _many_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many-files")
    Decisions(settings_of(folder)).commit(REGULAR.newest + 1)
    return folder


@pytest.fixture
def crowded(_many_files, settings, tmp_path):
    """Decisions of one date with one small file more than its limit."""
    shutil.copytree(_many_files, tmp_path, dirs_exist_ok=True)
    return Decisions(settings, rows=REGULAR.newest + 1)


@pytest.fixture
def keeping(tmp_path):
    """Return the decisions of a deployment that retains so many days of them."""
    return lambda days: Decisions(settings_of(tmp_path, f"audit.keep_days.decisions={days}"))


@pytest.fixture
def now():
    """The time at which files are created."""
    return datetime.fromtimestamp(time.time(), UTC)
