"""The stages of the enforcing query without Spark, in this process: a thousand times faster, to find defects."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

import jobs.enforce.decide
import jobs.enforce.resolve
from schemas.kafka import RECORD
from tests.support.reference.log import Log, Row
from tests.support.replay.engine import Answer, LoggedQuotas, enforce_config_of
from tests.support.replay.run import Run
from tests.support.rows import read_answer


@dataclass(slots=True)
class _State:
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
    """An engine that calls the stages as Spark does, with a bucket's rows in any order."""

    _states: dict[str, _State] = field(default_factory=dict)

    def answers(self, log: Log, run: Run) -> list[Answer]:
        """Return all answers that would be written."""
        self._states = {}
        chance = random.Random(run.arrival)
        return [answer for batch in run.batches(log) for answer in self._batch(log, run, batch, chance)]

    def _batch(self, log: Log, run: Run, batch: Sequence[Row], chance: random.Random) -> Iterable[Answer]:
        rows = list(batch)
        chance.shuffle(rows)
        records = pa.RecordBatch.from_pylist(
            [dict(zip(RECORD.names, row, strict=True)) for row in rows], to_arrow_schema(RECORD)
        )
        quotas, config = LoggedQuotas(log.changes, run.knows_all), enforce_config_of(log)
        groups: dict[str, list[Any]] = {}
        for resolved in jobs.enforce.resolve._resolve_batches(quotas, config.policy, iter([records])):  # noqa: SLF001 the stage itself
            for row in resolved.to_pylist():
                groups.setdefault(row["bucket"], []).append(row["request"])
        for bucket, requests in groups.items():
            chance.shuffle(requests)
            state = self._states.setdefault(bucket, _State())
            for each in jobs.enforce.decide.answer_requests(config, bucket, requests, state):
                yield read_answer(each, config.decisions_topic, config.dead_letters_topic)
