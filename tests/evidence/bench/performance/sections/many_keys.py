"""Other ways to store buckets, with the same decision: groups of buckets as one binary, and transformWithState."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from jobs.enforce.decide import EnforceConfig, answer_requests
from jobs.enforce.packed_answer import unpack_answer
from jobs.enforce.query import enforce_config, start_enforce
from jobs.enforce.resolve import resolve_requests
from jobs.spark.kafka_source import read_requests
from jobs.spark.worker import prepare_worker
from quota.kafka.quotas.log import KafkaQuotas
from quota.settings import Settings
from schemas.buckets import ANSWERED, STATE
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.ground import Ground, elsewhere, with_batches, write
from tests.evidence.bench.performance.sections.throughput import drain

GROUPS = 32

_STATES = StructType([StructField("states", BinaryType())])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, list[Any]]).decode


@dataclass(slots=True)
class Held:
    """One bucket's state, with the interface that the decision needs."""

    get: tuple[Any, ...] | None

    @property
    def exists(self) -> bool:
        """Whether there is a state."""
        return self.get is not None

    def update(self, state: tuple[Any, ...]) -> None:
        """Replace the state."""
        self.get = state


def decide_group(
    config: EnforceConfig, _: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Decide for all buckets of a group, whose states are one binary that is always read and written as a whole."""
    prepare_worker(__name__)
    requests: dict[str, list[bytes]] = {}
    for frame in frames:
        for bucket, request in zip(frame["bucket"], frame["request"], strict=True):
            requests.setdefault(bucket, []).append(request)
    states = _decode(state.get[0]) if state.exists else {}
    answers: list[bytes] = []
    for bucket, of_bucket in requests.items():
        held = Held(tuple(states[bucket]) if bucket in states else None)
        answers += answer_requests(config, bucket, of_bucket, held)
        if held.get is not None:
            states[bucket] = list(held.get)
    state.update((_encode(states),))
    yield pd.DataFrame({"answer": answers})


class Decider(StatefulProcessor):
    """The decision in transformWithState with rows: one bucket for each key."""

    def __init__(self, config: EnforceConfig) -> None:
        self._config = config

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Create the state."""
        prepare_worker(__name__)
        self._state = handle.getValueState("bucket", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803 Spark's names
        """Decide the requests of one bucket."""
        before = self._state.get() if self._state.exists() else None
        held = Held(None if before is None else tuple(before))
        for answer in answer_requests(self._config, key[0], [row.request for row in rows], held):
            yield Row(answer=answer)
        if held.get is not None and held.get != before:
            self._state.update(held.get)

    def close(self) -> None:
        """Do nothing."""


def _grouped(resolved: DataFrame, config: EnforceConfig) -> DataFrame:
    group = F.pmod(F.hash("bucket"), F.lit(GROUPS)).cast(IntegerType())
    grouped = resolved.withColumn("group", group).groupBy("group")
    return grouped.applyInPandasWithState(
        partial(decide_group, config), ANSWERED, _STATES, "append", GroupStateTimeout.NoTimeout
    )


def _by_rows(resolved: DataFrame, config: EnforceConfig) -> DataFrame:
    return resolved.groupBy("bucket").transformWithState(Decider(config), ANSWERED, "Append", "None")


def _start(
    plan: Callable[[DataFrame, EnforceConfig], DataFrame],
    spark: SparkSession,
    settings: Settings,
    *,
    once: bool = False,
) -> StreamingQuery:
    config = enforce_config(settings)
    quotas = KafkaQuotas.from_settings(settings, settings.enforce.quota_timeout_seconds)
    resolved = resolve_requests(read_requests(spark, settings), quotas, config.policy)
    columns = unpack_answer(F.col("answer"), config.decisions_topic, config.dead_letters_topic)
    return write(plan(resolved, config).select(*columns), settings, plan.__name__.strip("_"), once=once)


PER_BUCKET = "a bucket a key"
PLANS: dict[str, Callable[..., StreamingQuery]] = {
    PER_BUCKET: start_enforce,
    f"{GROUPS} groups, a binary state each": partial(_start, _grouped),
    "transformWithState, rows": partial(_start, _by_rows),
}


def many_keys(ground: Ground, keys: Sequence[int], batch: int, rounds: int, seconds: float) -> list[Figure]:
    """Measure requests/s of each plan, compared with one bucket for each key; a batch has requests of all keys."""
    taken: dict[tuple[int, str], list[float]] = {}
    for active in keys:
        settings = with_batches(ground.deployment(f"keys-{active}"), batch)
        fill(settings, 4 * batch, active)
        for start in PLANS.values() if active == keys[0] else ():
            drain(ground, elsewhere(settings, ground), start, seconds)  # warms up
        for turn in range(rounds):
            for name, start in PLANS.items():
                rate = drain(ground, elsewhere(settings, ground), start, seconds)
                taken.setdefault((active, name), []).append(rate)
                ground.notify(f"many keys: round {turn + 1}, {active:,} keys, {name}: {rate:,.0f}/s")
    return [
        Figure(
            "many keys",
            f"{name}, {active:,} active keys",
            "1/s",
            tuple(taken[active, name]),
            PER_BUCKET,
            tuple(taken[active, PER_BUCKET]),
            at=active,
        )
        for active in keys
        for name in PLANS
        if name != PER_BUCKET
    ]
