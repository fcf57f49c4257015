"""The adapter that puts `quota.admission` behind applyInPandasWithState."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import jobs.worker  # noqa: F401 what the workers keep
from jobs.bucket_state import bucket_of, state_of
from jobs.rows import Row, from_row, is_bucket, record_of
from quota import codec
from quota.admission import decide, in_order
from quota.bucket import Window
from quota.decision import DeadLetter, Decision
from quota.resolution import Policy
from schemas.buckets import ANSWERED, STATE

_FRAME_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answering:
    """How requests are decided, and where the answers go."""

    window: Window
    policy: Policy
    decisions_topic: str
    dead_letters_topic: str


@dataclass(slots=True)
class Frames:
    """Answers on their way to Spark, in frames of a few megabytes.

    PySpark holds the frames of a task, of whichever keys, until it has more than `rows` rows of them, however large.
    What is large is therefore followed by as many rows of nothing, with which all goes at once.
    """

    rows: int
    held_bytes: int = 0
    """Of the answers since then."""

    def of(self, answers: Iterable[Row]) -> Iterator[pd.DataFrame]:
        """The frames of one key."""
        held: list[Row | None] = []
        for answer in answers:
            held.append(answer)
            self.held_bytes += len(answer["key"] or b"") + len(answer["value"])
            if self.held_bytes >= _FRAME_BYTES:
                yield pd.DataFrame({"answer": [*held, *[None] * self.rows]})
                held, self.held_bytes = [], 0
        if held:
            yield pd.DataFrame({"answer": held})


def decide_requests(resolved: DataFrame, answering: Answering) -> DataFrame:
    """Decide resolved requests (`schemas.buckets.RESOLVED`) into answers (`schemas.kafka.ANSWER`)."""
    frames = Frames(int(resolved.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0))
    return (
        resolved.groupBy("bucket")
        .applyInPandasWithState(
            partial(_decide_bucket, answering, frames), ANSWERED, STATE, "append", GroupStateTimeout.NoTimeout
        )
        .where(F.col("answer").isNotNull())
        .select(F.col("answer.topic"), F.col("answer.key"), F.col("answer.value"))
    )


def _decide_bucket(
    answering: Answering, out: Frames, group: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Answer all records of one key in this batch; those of a bucket come in no order and in several frames."""
    (key,) = group
    rows = (row for frame in frames for row in frame["request"])
    answers = _answers_of_bucket(answering, rows, state) if is_bucket(key) else _answers(answering, rows)
    return out.of(answers)


def _answers_of_bucket(answering: Answering, rows: Iterable[Row], state: GroupState) -> Iterator[Row]:
    """Decide in order. Rows wait as the bytes they came in, which are a fraction of what they are decoded."""
    before = bucket = bucket_of(state.get) if state.exists else None
    for row in in_order(rows, record_of):
        request = from_row(row, answering.policy)
        if isinstance(request, DeadLetter):
            raise TypeError(f"a dead letter among the requests of a bucket: {request.source}")
        bucket, (decision,) = decide(bucket, [request], answering.window, answering.policy.repeats)
        yield _answer(answering.decisions_topic, row, decision)
    if bucket is not None and bucket != before:
        state.update(state_of(bucket))


def _answers(answering: Answering, rows: Iterable[Row]) -> Iterator[Row]:
    """Answer what touches no bucket: one by one, as it comes."""
    for row in rows:
        request = from_row(row, answering.policy)
        if isinstance(request, DeadLetter):
            yield _answer(answering.dead_letters_topic, row, request)
        else:
            _, (decision,) = decide(None, [request], answering.window)
            yield _answer(answering.decisions_topic, row, decision)


def _answer(topic: str, row: Row, answer: Decision | DeadLetter) -> Row:
    return {"topic": topic, "key": row["key"], "value": codec.encode(answer)}
