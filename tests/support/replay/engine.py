"""The enforcing query over files: a log, cut into batches as in a run, and all its answers."""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.enforce.decide import EnforceConfig
from jobs.enforce.query import enforce
from quota.admission.policy import Policy
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.timeline.change import BucketReset, QuotaChange
from quota.timeline.timeline import QuotaTimeline
from schemas.kafka import RECORD
from tests.support.reference.log import ABSENT, Change, Log, Reset, Row
from tests.support.replay.run import Run

DECISIONS, DEAD_LETTERS = "decisions", "dead-letters"

Answer = tuple[str, bytes, bytes]
"""Topic, key and value."""

_TASKS = 2
"""Files of a batch; each is read by one task."""

_FIRST_MODIFIED = 1_700_000_000


@dataclass(frozen=True, slots=True)
class LoggedQuotas:
    """A quota source that returns all changes of a log, or only those up to the requested time."""

    changes: Sequence[Change | Reset]
    knows_all: bool

    def read_until(self, until: int) -> QuotaTimeline:
        """Return the quotas with at least all changes up to `until` (epoch ms)."""
        quotas = QuotaTimeline()
        for change in self.changes:
            if self.knows_all or change.moment <= until:
                quotas.add(_to_change(change))
        return quotas


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """An engine of Spark, with a checkpoint for each run."""

    spark: SparkSession

    def answers(self, log: Log, run: Run) -> list[Answer]:
        """Return all answers that were written, including copies."""
        batches = run.batches(log)
        again = len(batches) if run.restart_after is None else min(run.restart_after + 1, len(batches))
        with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder, self._configured(run):
            query = _Query(self.spark, Path(folder), log, run)
            query.process(batches[:again])
            if run.restart_after is not None:
                if run.crash:
                    query.forget_last_commit()
                query.process(batches[again:])
            return query.written

    @contextmanager
    def _configured(self, run: Run) -> Iterator[None]:
        wanted = {
            "spark.sql.shuffle.partitions": run.state_partitions,
            "spark.sql.execution.arrow.maxRecordsPerBatch": run.batch_rows,
        }
        before = {name: self.spark.conf.get(name) for name in wanted}
        for name, value in wanted.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                self.spark.conf.set(name, value)


@dataclass(slots=True)
class _Query:
    """A query with its checkpoint and its answers."""

    spark: SparkSession
    folder: Path
    log: Log
    run: Run
    written: list[Answer] = field(default_factory=list)
    files: int = 0

    def process(self, batches: Sequence[Sequence[Row]]) -> None:
        """Write batches as files, and run until they are answered."""
        chance = random.Random(self.run.arrival)
        (self.folder / "in").mkdir(exist_ok=True)
        for batch in batches:
            rows = list(batch)
            chance.shuffle(rows)
            middle = chance.randint(0, len(rows))
            for part in (rows[:middle], rows[middle:]):
                self._write(part)
        records = (
            self.spark.readStream.schema(RECORD).option("maxFilesPerTrigger", _TASKS).parquet(str(self.folder / "in"))
        )
        quotas = LoggedQuotas(self.log.changes, self.run.knows_all)
        query = (
            enforce(records, quotas, enforce_config_of(self.log))
            .writeStream.foreachBatch(self._on_batch)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forget_last_commit(self) -> None:
        """Undo the last commit, as if the query had died after a batch's answers and state were written."""
        commits = self.folder / "checkpoint" / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        for file in commits.glob(f"*{last}*"):
            file.unlink()
        shutil.rmtree(commits / "_tmp", ignore_errors=True)

    def _on_batch(self, answers: DataFrame, _: int) -> None:
        self.written += [(row.topic, bytes(row.key), bytes(row.value)) for row in answers.collect()]

    def _write(self, rows: Sequence[Row]) -> None:
        """Write a file that is newer than those before it: Spark reads files by their modification time."""
        schema = to_arrow_schema(RECORD)
        table = pa.Table.from_pylist([dict(zip(RECORD.names, row, strict=True)) for row in rows], schema)
        file = self.folder / "in" / f"{self.files:04}.parquet"
        pq.write_table(table, file)
        os.utime(file, (_FIRST_MODIFIED + self.files,) * 2)
        self.files += 1


def enforce_config_of(log: Log) -> EnforceConfig:
    """Return the configuration for a log."""
    return EnforceConfig(log.window, Policy(deduplication=log.deduplication), DECISIONS, DEAD_LETTERS)


def _to_change(change: Change | Reset) -> QuotaChange | BucketReset:
    if isinstance(change, Reset):
        return BucketReset(change.tags, change.moment)
    named = {part: name for part, name in zip(("user", "client_id"), change.entity, strict=True) if name != ABSENT}
    quota = None if change.rate is None else Quota(change.rate, change.burst)
    return QuotaChange(QuotaEntity(**named), quota, change.moment)
