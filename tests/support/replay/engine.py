"""Runs of a log through the enforcing query, over files in Spark or in a plain loop, and all its answers."""

import os
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import jobs.enforce.stages
from jobs.enforce.query import enforce
from jobs.enforce.stages import EnforceConfig, answer_requests
from quota.admission.policy import Policy
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota
from quota.timeline.change import BucketReset, QuotaChange
from quota.timeline.timeline import QuotaTimeline
from schemas.kafka import RECORD
from tests.support.reference.log import ABSENT, Change, Log, Reset, Row
from tests.support.releases import another_release
from tests.support.rows import record_batch

DECISIONS, DEAD_LETTERS = "decisions", "dead-letters"

Answer = tuple[str, bytes, bytes]
"""Topic, key and value."""

_TASKS = 2
"""Files of a batch; each is read by one task."""

_FIRST_MODIFIED = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a log: the cuts of its partitions into batches, and settings that must not change the answers."""

    cuts: Sequence[float] = ()
    """Positions of the cuts, as shares of a partition; there is one batch more than cuts."""
    state_partitions: int = 2
    batch_rows: int = 1000
    """Rows in each record batch that Python receives."""
    arrival: int = 0
    """Seed of the order in which a batch's rows arrive, and of their tasks."""
    restart_after: int | None = None
    """The batch after which the query restarts from its checkpoint."""
    crash: bool = False
    """Whether that batch is not committed, so that it is processed again."""
    ways: tuple[bool, bool] = (True, True)
    """Whether PySpark has the known release (`jobs.spark.keyed`): first, and after a restart."""
    knows_all: bool = True
    """Whether all quota changes are known from the beginning, or each no sooner than necessary."""

    def batches(self, log: Log) -> list[list[Row]]:
        """Return the log's rows batch by batch; each partition continues where it was cut."""
        by_partition: dict[int, list[Row]] = {}
        for row in log.rows():
            by_partition.setdefault(row[1], []).append(row)
        count = len(self.cuts) + 1
        batches: list[list[Row]] = [[] for _ in range(count)]
        for number, rows in enumerate(by_partition.values()):
            # Kafka's batches do not cut all partitions at the same share either.
            shares = sorted((share + number * 0.37) % 1 for share in self.cuts)
            ends = [0, *(round(share * len(rows)) for share in shares), len(rows)]
            for batch, (start, end) in zip(batches, pairwise(ends), strict=True):
                batch.extend(rows[start:end])
        return [batch for batch in batches if batch]


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
            query.process(batches[:again], is_known_release=run.ways[0])
            if run.restart_after is not None:
                if run.crash:
                    query.forget_last_commit()
                query.process(batches[again:], is_known_release=run.ways[1])
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

    def process(self, batches: Sequence[Sequence[Row]], *, is_known_release: bool) -> None:
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
        with nullcontext() if is_known_release else another_release():
            answers = enforce(records, quotas, enforce_config_of(self.log))
        query = (
            answers.writeStream.foreachBatch(self._on_batch)
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
        table = pa.Table.from_batches([record_batch(rows)])
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


@dataclass
class State:
    """The state of a bucket, with the interface of PySpark's GroupState."""

    value: Any = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


@dataclass(slots=True)
class PlainEngine:
    """An engine that calls the stages as Spark does, a thousand times faster, with a bucket's rows in any order."""

    _states: dict[str, State] = field(default_factory=dict)

    def answers(self, log: Log, run: Run) -> list[Answer]:
        """Return all answers that would be written."""
        self._states = {}
        chance = random.Random(run.arrival)
        return [answer for batch in run.batches(log) for answer in self._batch(log, run, batch, chance)]

    def _batch(self, log: Log, run: Run, batch: Sequence[Row], chance: random.Random) -> Iterable[Answer]:
        rows = list(batch)
        chance.shuffle(rows)
        quotas, config = LoggedQuotas(log.changes, run.knows_all), enforce_config_of(log)
        groups: dict[str, list[Any]] = {}
        for resolved in jobs.enforce.stages._resolve_batches(quotas, config.policy, iter([record_batch(rows)])):  # noqa: SLF001 the stage itself
            for row in resolved.to_pylist():
                groups.setdefault(row["bucket"], []).append(row["request"])
        for bucket, requests in groups.items():
            chance.shuffle(requests)
            state = self._states.setdefault(bucket, State())
            yield from answer_requests(config, bucket, requests, state)
