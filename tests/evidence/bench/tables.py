"""The audit's table of decisions after a day, a week and a year, compared in one run: `make bench-tables`.

A year at the default trigger has 3.2 million commits. After upkeep, a file for each day and the log of the last
two days are left; these are written here directly. The log contains what an audit and its upkeep write: files that are
added and compacted, so the checkpoint names as many removed files as a real one.
"""

import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from jobs.audit.append import AuditConfig, MicroBatch, append_records
from jobs.audit.decisions import AuditedDecisions
from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.preparation import prepare_tables
from jobs.audit.tables.specs import DECISIONS, PROPERTIES
from quota.records import codec
from quota.records.record import Source
from quota.settings import Settings, load_settings
from tests.support.factories import decided
from tests.support.rows import kafka_rows, micro_batch
from tests.support.tables import DAY, decision_row, moment, names_in

COMMITS_A_DAY = 8_640
COMMITS_A_COMPACTION = 30
"""By an upkeep every 300 s and a trigger of 10 s."""
DECISIONS_A_BATCH = 50
ROUNDS = 60
"""Two of them write a checkpoint, which the maximum shows."""

_DAY_MS = 86_400_000
_INTERVAL = int(PROPERTIES["delta.checkpointInterval"])


def main() -> None:
    """Print what each table consists of, and the median and the longest times in ms."""
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            "new": _Table(Path(folder, "new"), days=1, commits=0),
            "a day": _Table(Path(folder, "day"), days=1, commits=COMMITS_A_DAY),
            "a week": _Table(Path(folder, "week"), days=7, commits=2 * COMMITS_A_DAY),
            "a year": _Table(Path(folder, "year"), days=365, commits=2 * COMMITS_A_DAY),
        }
        figures: dict[tuple[str, str], list[float]] = {}
        for _ in range(ROUNDS):  # alternating, so that other load affects all of them
            for age, table in tables.items():
                for what, seconds in table.measure():
                    figures.setdefault((age, what), []).append(seconds * 1000)
        operations = ("append", "open", "find")
        headings = "".join(f"{f'{what} ms':>11}{'max':>6}" for what in operations)
        print(f"{'':8}{'files':>6}{'log':>8}{'removed':>9}{'checkpoint MB':>15}{headings}")
        for age, table in tables.items():
            times = "".join(
                f"{statistics.median(figures[age, what]):11.0f}{max(figures[age, what]):6.0f}" for what in operations
            )
            removed, size = table.checkpoint()
            print(f"{age:8}{table.files:6,}{table.log:8,}{removed:9,}{size / 1e6:15.2f}{times}")


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

    def checkpoint(self) -> tuple[int, int]:
        """Return the number of removed files that the newest checkpoint names, and its size in bytes."""
        newest = max(self._log_folder.glob("*.checkpoint.parquet"))
        removed = pq.read_table(newest, columns=["remove"])["remove"]
        return len(removed) - removed.null_count, newest.stat().st_size

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
        list(append_records(AuditConfig.of(self._settings), batch, iter(micro_batch(rows))))

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
        """Write the commits of the last days, which a checkpoint covers: small files that are added and compacted."""
        first, began = self._table.version() + 1, time.time() * 1000 - commits / COMMITS_A_DAY * _DAY_MS
        info, add, marks = _actions(self._log_folder / f"{1:020}.json")
        small: list[str] = []
        for number in range(commits):
            at = round(began + (number + 1) / COMMITS_A_DAY * _DAY_MS)
            is_last = number == commits - 1
            if is_last or number % COMMITS_A_COMPACTION == COMMITS_A_COMPACTION - 1:
                actions = [info, *(_removed(path, add, at) for path in small)]
                small = []
            else:
                actions = [info, *marks]
            if not is_last:  # its file would have to exist
                small.append(f"date=2026-11-21/part-00000-{uuid.uuid4()}-c000.snappy.parquet")
                actions.append({"add": add | {"path": small[-1], "modificationTime": at}})
            version = first + number
            Path(self._log_folder, f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
            if (version + 1) % _INTERVAL == 0 and not is_last:
                Path(self._log_folder, f"{version:020}.checkpoint.parquet").touch()  # is listed, and never read
        self._table.create_checkpoint()


def _actions(commit: Path) -> tuple[dict, dict, list[dict]]:
    """Return the description of a commit of the audit, the file that it adds, and its other actions."""
    info, *others = map(json.loads, commit.read_text().splitlines())
    (add,) = (action["add"] for action in others if "add" in action)
    return info, add, [action for action in others if "add" not in action]


def _removed(path: str, add: dict, at: int) -> dict:
    """Return the removal of a file by compaction."""
    same = {name: add[name] for name in ("partitionValues", "size")}
    return {"remove": same | {"path": path, "dataChange": False, "deletionTimestamp": at, "extendedFileMetadata": True}}


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
