"""The adapter that puts `quota.admission.decide` behind applyInPandasWithState."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import jobs.spark.worker  # noqa: F401 what the workers keep
from jobs.enforce.packed import DEAD_LETTER, DECISION, is_bucket, pack_answer, place_of, unpack, unpacked
from jobs.enforce.state import bucket_of, state_of
from quota.admission.decide import decide, in_order
from quota.admission.policy import Policy
from quota.algorithms.bucket import Window
from quota.algorithms.token_bucket import TokenBucket
from quota.records import codec
from quota.records.decision import DeadLetter
from schemas.buckets import ANSWERED, STATE

_COLUMNS = pd.Index(ANSWERED.names)
_FRAME_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EnforceConfig:
    """How requests are decided, and where the answers go."""

    window: Window
    policy: Policy
    decisions_topic: str
    dead_letters_topic: str

    @property
    def algorithm(self) -> TokenBucket:
        """What is enforced."""
        return TokenBucket(self.window, self.policy.repeats)


@dataclass(slots=True)
class Frames:
    """Answers on their way to Spark, in frames of a few megabytes.

    PySpark holds the frames of a task, of whichever keys, until it has more than `rows` rows of them, however large.
    What is large is therefore followed by as many rows of nothing, with which all goes at once.
    """

    rows: int
    held_bytes: int = 0
    """Of the answers since then."""

    def of(self, answers: Iterable[bytes]) -> Iterator[pd.DataFrame]:
        """The frames of one key."""
        held: list[bytes | None] = []
        for answer in answers:
            held.append(answer)
            self.held_bytes += len(answer)
            if self.held_bytes >= _FRAME_BYTES:
                yield _frame([*held, *[None] * self.rows])
                held, self.held_bytes = [], 0
        if held:
            yield _frame(held)


def _frame(answers: list[bytes | None]) -> pd.DataFrame:
    """A frame of `schemas.buckets.ANSWERED`, in less than half the time that pandas takes to find out what it is."""
    column = np.empty((len(answers), 1), dtype=object)
    column[:, 0] = answers
    return pd.DataFrame(column, columns=_COLUMNS, copy=False)


def decide_requests(resolved: DataFrame, answering: EnforceConfig) -> DataFrame:
    """Decide resolved requests (`schemas.buckets.RESOLVED`) into answers (`schemas.kafka.ANSWER`)."""
    frames = Frames(int(resolved.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0))
    return (
        resolved.groupBy("bucket")
        .applyInPandasWithState(
            partial(_decide_bucket, answering, frames), ANSWERED, STATE, "append", GroupStateTimeout.NoTimeout
        )
        .where(F.col("answer").isNotNull())
        .select(*unpacked(F.col("answer"), answering.decisions_topic, answering.dead_letters_topic))
    )


def _decide_bucket(
    answering: EnforceConfig, out: Frames, group: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Answer all records of one key in this batch; those of a bucket come in no order and in several frames."""
    (key,) = group
    requests = (request for frame in frames for request in frame["request"])
    return out.of(answers_of(answering, key, requests, state))


def answers_of(answering: EnforceConfig, key: str, requests: Iterable[bytes], state: GroupState) -> Iterator[bytes]:
    """The answers to packed requests of one key, whose state is held in whatever way."""
    return _answers_of_bucket(answering, requests, state) if is_bucket(key) else _answers(answering, requests)


def _answers_of_bucket(answering: EnforceConfig, requests: Iterable[bytes], state: GroupState) -> Iterator[bytes]:
    """Decide in order. Requests wait as they were packed, which is a fraction of what they are decoded."""
    algorithm = answering.algorithm
    before = bucket = bucket_of(state.get) if state.exists else None
    for packed in in_order(requests, place_of):
        key, request = unpack(packed, answering.policy)
        if isinstance(request, DeadLetter):
            raise TypeError(f"a dead letter among the requests of a bucket: {request.source}")
        bucket, (decision,) = decide(bucket, [request], algorithm)
        yield pack_answer(DECISION, key, codec.encode(decision))
    if bucket is not None and bucket != before:
        state.update(state_of(bucket))


def _answers(answering: EnforceConfig, requests: Iterable[bytes]) -> Iterator[bytes]:
    """Answer what touches no bucket: one by one, as it comes."""
    algorithm = answering.algorithm
    for packed in requests:
        key, request = unpack(packed, answering.policy)
        if isinstance(request, DeadLetter):
            yield pack_answer(DEAD_LETTER, key, codec.encode(request))
        else:
            _, (decision,) = decide(None, [request], algorithm)
            yield pack_answer(DECISION, key, codec.encode(decision))
