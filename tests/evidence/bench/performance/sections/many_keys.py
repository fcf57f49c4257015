"""Other ways to keep a bucket, behind the same decision: groups of buckets as one binary, and transformWithState."""

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

from jobs.enforce.decide import EnforceConfig, answers_of
from jobs.enforce.packed import unpacked
from jobs.enforce.query import enforce_config, start_enforce
from jobs.enforce.resolve import resolve_requests
from jobs.spark.kafka_source import read_requests
from quota.kafka.quota_log import KafkaQuotas
from quota.settings.model import Settings
from schemas.buckets import ANSWERED, STATE
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.ground import Ground, elsewhere, with_batches, write
from tests.evidence.bench.performance.throughput import BATCH, drain

GROUPS = 32

_STATES = StructType([StructField("states", BinaryType())])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, list[Any]]).decode


@dataclass(slots=True)
class Held:
    """One bucket's state, as the decision asks for it."""

    get: tuple[Any, ...] | None

    @property
    def exists(self) -> bool:
        """Whether there is any."""
        return self.get is not None

    def update(self, state: tuple[Any, ...]) -> None:
        """Put another in its place."""
        self.get = state


def decide_group(
    answering: EnforceConfig, _: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Decide for all buckets of a group, whose states are one binary: all of it is read and written for any of them."""
    requests: dict[str, list[bytes]] = {}
    for frame in frames:
        for bucket, request in zip(frame["bucket"], frame["request"], strict=True):
            requests.setdefault(bucket, []).append(request)
    states = _decode(state.get[0]) if state.exists else {}
    answers: list[bytes] = []
    for bucket, of_bucket in requests.items():
        held = Held(tuple(states[bucket]) if bucket in states else None)
        answers += answers_of(answering, bucket, of_bucket, held)
        if held.get is not None:
            states[bucket] = list(held.get)
    state.update((_encode(states),))
    yield pd.DataFrame({"answer": answers})


class Decider(StatefulProcessor):
    """The same by transformWithState's rows: a bucket a key."""

    def __init__(self, answering: EnforceConfig) -> None:
        self._answering = answering

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Have a state."""
        self._state = handle.getValueState("bucket", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803 Spark's names
        """Decide for one bucket."""
        before = self._state.get() if self._state.exists() else None
        held = Held(None if before is None else tuple(before))
        for answer in answers_of(self._answering, key[0], [row.request for row in rows], held):
            yield Row(answer=answer)
        if held.get is not None and held.get != before:
            self._state.update(held.get)

    def close(self) -> None:
        """Nothing to end."""


def _grouped(resolved: DataFrame, answering: EnforceConfig) -> DataFrame:
    group = F.pmod(F.hash("bucket"), F.lit(GROUPS)).cast(IntegerType())
    grouped = resolved.withColumn("group", group).groupBy("group")
    return grouped.applyInPandasWithState(
        partial(decide_group, answering), ANSWERED, _STATES, "append", GroupStateTimeout.NoTimeout
    )


def _by_rows(resolved: DataFrame, answering: EnforceConfig) -> DataFrame:
    return resolved.groupBy("bucket").transformWithState(Decider(answering), ANSWERED, "Append", "None")


def _start(
    plan: Callable[[DataFrame, EnforceConfig], DataFrame],
    spark: SparkSession,
    settings: Settings,
    *,
    once: bool = False,
) -> StreamingQuery:
    answering = enforce_config(settings)
    quotas = KafkaQuotas.of(settings, settings.enforce.quota_timeout_seconds)
    resolved = resolve_requests(read_requests(spark, settings), quotas, answering.policy)
    columns = unpacked(F.col("answer"), answering.decisions_topic, answering.dead_letters_topic)
    return write(plan(resolved, answering).select(*columns), settings, plan.__name__.strip("_"), once=once)


PER_BUCKET = "a bucket a key"
PLANS: dict[str, Callable[..., StreamingQuery]] = {
    PER_BUCKET: start_enforce,
    f"{GROUPS} groups, a binary state each": partial(_start, _grouped),
    "transformWithState, rows": partial(_start, _by_rows),
}


def many_keys(ground: Ground, keys: Sequence[int], rounds: int, seconds: float) -> list[Figure]:
    """Requests a second of each plan beside a bucket a key; a batch has a request or more of each key."""
    taken: dict[tuple[int, str], list[float]] = {}
    for active in keys:
        settings = with_batches(ground.deployment(f"keys-{active}"), BATCH)
        fill(settings, 4 * BATCH, active)
        for start in PLANS.values() if active == keys[0] else ():
            drain(ground, elsewhere(settings, ground), start, seconds)  # or the first one would be measured cold
        for turn in range(rounds):
            for name, start in PLANS.items():
                rate = drain(ground, elsewhere(settings, ground), start, seconds)
                taken.setdefault((active, name), []).append(rate)
                ground.tell(f"many keys: round {turn + 1}, {active:,} keys, {name}: {rate:,.0f}/s")
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
