"""The audit's table of decisions after a day and after a year, compared in one run: `make bench-tables`.

A year at the default trigger has 3.2 million commits. After upkeep, a file for each day and the log of the last
two days are left; these are written here directly.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from jobs.audit.append import AuditConfig, MicroBatch, append_records
from jobs.audit.decisions import AuditedDecisions
from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.preparation import prepare_tables
from jobs.audit.tables.specs import DECISIONS
from quota.records import codec
from quota.records.record import Source
from quota.settings import Settings, load_settings
from tests.support.factories import decided
from tests.support.rows import kafka_rows, record_batch
from tests.support.tables import DAY, decision_row, moment, names_in

COMMITS_A_DAY = 8_640
DECISIONS_A_BATCH = 50
ROUNDS = 30

_DAY_MS = 86_400_000


def main() -> None:
    """Print the number of files and log entries, and the median times in ms, of each table."""
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            "new": _Table(Path(folder, "new"), days=1, commits=0),
            "a day": _Table(Path(folder, "day"), days=1, commits=COMMITS_A_DAY),
            "a year": _Table(Path(folder, "year"), days=365, commits=2 * COMMITS_A_DAY),
        }
        figures: dict[tuple[str, str], list[float]] = {}
        for _ in range(ROUNDS):  # alternating, so that other load affects all of them
            for age, table in tables.items():
                for what, seconds in table.measure():
                    figures.setdefault((age, what), []).append(seconds)
        print(f"{'':12}{'files':>8}{'log':>8}{'append ms':>12}{'open ms':>12}{'find ms':>12}")
        for age, table in tables.items():
            times = "".join(
                f"{statistics.median(figures[age, what]) * 1000:12.0f}" for what in ("append", "open", "find")
            )
            print(f"{age:12}{table.files:8,}{table.log:8,}{times}")


class _Table:
    """A table of decisions as it is after `days` days, with `commits` commits in its log."""

    def __init__(self, root: Path, *, days: int, commits: int) -> None:
        self._settings = _settings(root)
        self._batch = 0
        prepare_tables(self._settings, names_in(self._settings))
        self._append()
        self._write_days(days)
        self._write_log(commits)

    @property
    def files(self) -> int:
        return len(self._table.file_uris())

    @property
    def log(self) -> int:
        return len(list(self._log_folder.iterdir()))

    @property
    def _table(self) -> DeltaTable:
        return DeltaTable(self._settings.storage.table("decisions"))

    @property
    def _log_folder(self) -> Path:
        return Path(self._settings.storage.table("decisions"), "_delta_log")

    def measure(self) -> Iterator[tuple[str, float]]:
        """Yield each operation with its time in seconds."""
        yield "append", _seconds(self._append)
        yield "open", _seconds(lambda: TableStore.of(self._settings).open(DECISIONS))
        yield "find", _seconds(self._find)

    def _append(self) -> None:
        self._batch += 1
        first = self._batch * DECISIONS_A_BATCH
        values = [_record(first + number) for number in range(DECISIONS_A_BATCH)]
        rows = kafka_rows(values, topic="mutation-decisions", timestamps=[DAY] * len(values))
        batch = MicroBatch("bench", self._batch)
        list(append_records(AuditConfig.of(self._settings), batch, iter([record_batch(rows)])))

    def _find(self) -> None:
        """Find a decision by its id, as `explain` does."""
        decision = AuditedDecisions(self._settings).find(Source("mutation-requests", 0, 55))
        if decision is None:
            raise AssertionError("the decision is not found")

    def _write_days(self, days: int) -> None:
        """Write a file for each day before `DAY`."""
        schema = pa.schema(self._table.schema().to_arrow())
        rows = [
            _with_times(decision_row(decided(1, at=DAY - day * _DAY_MS + number, offset=day * 1000 + number)))
            for day in range(1, days)
            for number in range(DECISIONS_A_BATCH)
        ]
        if rows:
            write_deltalake(self._table, pa.Table.from_pylist(rows, schema), mode="append")

    def _write_log(self, commits: int) -> None:
        """Write commits that a checkpoint covers, which Delta retains for a configured time."""
        version = self._table.version()
        for number in range(version + 1, version + 1 + commits):
            actions = (
                {"commitInfo": {"timestamp": DAY, "operation": "WRITE"}},
                {"txn": {"appId": "a", "version": number}},
            )
            Path(self._log_folder, f"{number:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
        self._table.create_checkpoint()


def _settings(root: Path) -> Settings:
    return load_settings([f"storage.root={root}"], environment={}, with_default_file=False)


def _record(offset: int) -> bytes:
    return codec.encode(decided(1, at=DAY + offset, offset=offset))


def _with_times(row: dict) -> dict:
    times = {name: moment(row[name]) for name in ("timestamp", "retry_at", "expires_at") if row.get(name) is not None}
    return row | times | {"date": times["timestamp"].date()}


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
