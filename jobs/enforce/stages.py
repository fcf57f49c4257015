"""The two stages of the enforcing query: a record is resolved to its bucket and quota, and decided by the bucket."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.state import GroupStateTimeout

from jobs.enforce.packing import BUCKET_PREFIX, decode_bucket, encode_bucket, pack_request, unpack_requests
from jobs.spark.keyed import KeyedStage, KeyState
from jobs.spark.worker import prepare_worker
from quota.admission.decide import decide_records
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import TokenBucket
from quota.kafka.quotas.log import KafkaQuotas
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.quota_log import Window
from quota.records.record import Record
from schemas.buckets import RESOLVED, STATE
from schemas.kafka import ANSWER, RECORD


def resolve_requests(records: DataFrame, quotas: KafkaQuotas, policy: Policy) -> DataFrame:
    """Return each record (`schemas.kafka.RECORD`) with its bucket and quota (`schemas.buckets.RESOLVED`)."""
    bounded = records.select(*_bounded(policy.max_bytes))
    return bounded.mapInArrow(partial(_resolve_batches, quotas, policy), RESOLVED)


def _bounded(max_bytes: int) -> list[Column]:
    """Return the columns of a record; key and value are cut one byte above the limit, which still shows a violation."""
    return [
        F.substring(name, 1, max_bytes + 1).alias(name) if name in {"key", "value"} else F.col(name)
        for name in RECORD.names
    ]


def _resolve_batches(
    source: KafkaQuotas, policy: Policy, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    prepare_worker(__name__)
    schema = to_arrow_schema(RESOLVED)
    for batch in batches:
        # Sorted by time, because a callback cannot go back to earlier quotas.
        records = sorted(map(Record.of_row, batch.to_pylist()), key=attrgetter("timestamp"))
        if records:
            quotas = source.read_until(records[-1].timestamp)
            packed = [pack_request(record, resolve(record, quotas, policy)) for record in records]
            yield pa.RecordBatch.from_pylist(packed, schema)


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
    """Decide resolved requests (`schemas.buckets.RESOLVED`) into answers (`schemas.kafka.ANSWER`).

    The state of a bucket never times out: an idle bucket would forget its debt.
    """
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
    records, of_bucket = unpack_requests(requests), key.startswith(BUCKET_PREFIX)
    decided = decide_records(before, records, algorithm, config.policy, of_bucket=of_bucket)
    for bucket, record, answer in decided:  # noqa: B007 the last one is used after the loop
        topic = config.dead_letters_topic if isinstance(answer, DeadLetter) else config.decisions_topic
        yield topic, record.key, codec.encode(answer)
    if bucket is not None and bucket is not before:
        state.update(encode_bucket(bucket))
