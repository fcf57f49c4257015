"""The adapter that puts `quota.admission` behind applyInPandasWithState."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import jobs.worker  # noqa: F401 what the workers keep
from jobs.rows import Row, from_row
from quota import codec
from quota.admission import decide, in_order
from quota.bucket import Bucket, Window
from quota.decision import DeadLetter, Decision
from quota.resolution import ResolvedRequest
from schemas.buckets import ANSWERED, STATE


@dataclass(frozen=True, slots=True)
class Answering:
    """How requests are decided, and where the answers go."""

    window: Window
    max_request_bytes: int
    decisions_topic: str
    dead_letters_topic: str


def decide_requests(resolved: DataFrame, answering: Answering) -> DataFrame:
    """Decide resolved requests (`schemas.buckets.RESOLVED`) into answers (`schemas.kafka.ANSWER`)."""
    return (
        resolved.groupBy("bucket")
        .applyInPandasWithState(
            partial(_decide_bucket, answering), ANSWERED, STATE, "append", GroupStateTimeout.NoTimeout
        )
        .select(F.col("answer.topic"), F.col("answer.key"), F.col("answer.value"))
    )


def _decide_bucket(
    answering: Answering, group: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Decide all requests of one bucket in this batch; they come in no order and in several frames."""
    (bucket_key,) = group
    rows = [row for frame in frames for row in frame["request"]]
    read = [from_row(bucket_key, row, answering.max_request_bytes) for row in rows]
    requests = in_order([each for each in read if isinstance(each, ResolvedRequest)])
    before = Bucket(*state.get) if state.exists else None
    after, decisions = decide(before, requests, answering.window)
    if after is not None and after != before:
        state.update((after.tokens, after.updated_at, after.rate))

    answers = [
        _answer(answering.decisions_topic, request.record.key, decision)
        for request, decision in zip(requests, decisions, strict=True)
    ]
    answers += [
        _answer(answering.dead_letters_topic, row["key"], letter)
        for row, letter in zip(rows, read, strict=True)
        if isinstance(letter, DeadLetter)
    ]
    yield pd.DataFrame({"answer": answers})


def _answer(topic: str, key: bytes | None, answer: Decision | DeadLetter) -> Row:
    return {"topic": topic, "key": key, "value": codec.encode(answer)}
