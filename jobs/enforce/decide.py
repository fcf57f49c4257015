"""The stateful stage: `quota.admission.decide` in applyInPandasWithState."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from jobs.enforce.packing import decode_bucket, encode_bucket, pack_answer, unpack_answer, unpack_requests
from jobs.spark.keyed.stage import KeyedStage
from jobs.spark.keyed.state import SentState
from jobs.spark.worker import prepare_worker
from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.algorithms.token_bucket import TokenBucket
from quota.records.dead_letter import DeadLetter
from quota.records.quota import Window
from schemas.buckets import ANSWERED, STATE


@dataclass(frozen=True, slots=True)
class EnforceConfig:
    """The rules by which requests are decided, and the topics of the answers."""

    window: Window
    policy: Policy
    decisions_topic: str
    dead_letters_topic: str

    @property
    def algorithm(self) -> TokenBucket:
        """The algorithm that is enforced."""
        return TokenBucket(self.window, self.policy.deduplication)


def decide_requests(resolved: DataFrame, config: EnforceConfig) -> DataFrame:
    """Decide resolved requests (`schemas.buckets.RESOLVED`) into answers (`schemas.kafka.ANSWER`)."""
    max_rows = int(resolved.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)
    (output,) = ANSWERED.names
    stage = KeyedStage(partial(answer_requests, config), output, max_rows)
    return (
        resolved.groupBy("bucket")
        .applyInPandasWithState(stage, ANSWERED, STATE, "append", GroupStateTimeout.NoTimeout)
        .where(F.col(output).isNotNull())
        .select(*unpack_answer(F.col(output), config.decisions_topic, config.dead_letters_topic))
    )


def answer_requests(config: EnforceConfig, key: str, requests: Iterable[bytes], state: SentState) -> Iterator[bytes]:
    """Yield packed answers to the packed requests of one key; without a bucket, its state stays empty."""
    prepare_worker(__name__)
    algorithm = config.algorithm
    before = bucket = decode_bucket(state.get) if state.exists else None
    for record_key, request in unpack_requests(key, requests, config.policy):
        if isinstance(request, DeadLetter):
            yield pack_answer(request, record_key)
        else:
            bucket, (decision,) = decide(bucket, [request], algorithm)
            yield pack_answer(decision, record_key)
    if bucket is not None and bucket != before:
        state.update(encode_bucket(bucket))
