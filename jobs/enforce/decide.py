"""The stateful stage: the token bucket in applyInPandasWithState."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.state import GroupStateTimeout

from jobs.enforce.packing import unpack_requests
from jobs.enforce.state import decode_bucket, encode_bucket
from jobs.spark.keyed import KeyedStage, KeyState
from jobs.spark.worker import prepare_worker
from quota.admission.decide import decide_next
from quota.admission.policy import Policy
from quota.algorithms.token_bucket import TokenBucket
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.quota_log import Window
from schemas.buckets import STATE
from schemas.kafka import ANSWER

Answer = tuple[str, bytes | None, bytes]
"""A row of `schemas.kafka.ANSWER`: topic, key and value."""


@dataclass(frozen=True, slots=True)
class EnforceConfig:
    """The rules by which requests are decided, and the topics of the answers."""

    window: Window
    policy: Policy
    decisions_topic: str
    dead_letters_topic: str


def decide_requests(resolved: DataFrame, config: EnforceConfig) -> DataFrame:
    """Decide resolved requests (`schemas.buckets.RESOLVED`) into answers (`schemas.kafka.ANSWER`)."""
    max_rows = int(resolved.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)
    stage = KeyedStage(partial(answer_requests, config), to_arrow_schema(ANSWER), max_rows)
    answers = resolved.groupBy("bucket").applyInPandasWithState(
        stage, ANSWER, STATE, "append", GroupStateTimeout.NoTimeout
    )
    return answers if stage.without_pandas else answers.where(F.col("topic").isNotNull())


def answer_requests(config: EnforceConfig, key: str, requests: Iterable[bytes], state: KeyState) -> Iterator[Answer]:
    """Yield the answers to the packed requests of one key; without a bucket, its state stays empty."""
    prepare_worker(__name__)
    algorithm = TokenBucket(config.window, config.policy.deduplication)
    before = bucket = decode_bucket(state.get) if state.exists else None
    for record_key, request in unpack_requests(key, requests, config.policy):
        if isinstance(request, DeadLetter):
            yield config.dead_letters_topic, record_key, codec.encode(request)
        else:
            bucket, decision = decide_next(bucket, request, algorithm)
            yield config.decisions_topic, record_key, codec.encode(decision)
    if bucket is not None and bucket is not before:
        state.update(encode_bucket(bucket))
