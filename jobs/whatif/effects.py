"""The what-if as a Spark job: recorded decisions, judged again in the order of each bucket, by many at a time.

They are resolved once for each candidate, sorted by bucket and place, and folded as they come: so a
bucket of millions of requests takes no more memory than one of ten.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_type_hints

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

import jobs.spark.worker  # noqa: F401 what the workers keep
from jobs.spark.bucket_order import batch_of, in_bucket_order
from quota.admission.policy import Policy
from quota.admission.resolve import Quotas
from quota.algorithms.algorithm import Algorithm
from quota.records import codec
from quota.records.entity import Tags
from quota.timeline.resolution import Resolution, ResolvedRequest
from quota.whatif.backtest import Again, AsRecorded, Effect, Judge, effect_of
from quota.whatif.recorded import RecordedDecision
from schemas.source import SOURCE


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something to judge by."""

    name: str
    quotas: Quotas
    algorithm: Algorithm[Any]
    policy: Policy
    in_earnest: bool = True
    """Judges by quotas in shadow as though they were enforced, which is what there is to try; else as they are."""

    def resolution(self, decision: RecordedDecision) -> Resolution:
        """What a request is judged by.

        Raises:
            BadRecord: a callback failed.
        """
        found = decision.resolution(self.quotas, self.policy)
        return found._replace(shadow=False) if self.in_earnest else found


AS_RECORDED = -1
"""What stands for no candidate: the decisions as they were."""

_PLACED = StructType(
    [
        StructField("candidate", IntegerType()),
        StructField("bucket", StringType()),
        StructField("timestamp", LongType()),
        *SOURCE.fields,
        StructField("decision", BinaryType()),  # JSON of a RecordedDecision
        StructField("resolution", BinaryType()),  # JSON, null where it is not judged again
    ]
)

_KINDS = {str: StringType(), int: LongType()}

EFFECTS = StructType(
    [
        StructField("candidate", IntegerType()),
        *(StructField(name, _KINDS[kind]) for name, kind in get_type_hints(Effect).items()),
        StructField("differing", ArrayType(StringType())),  # fields, of a candidate that is to repeat what was decided
        StructField("decision_id", StringType()),  # where something differs
    ]
)
"""A row a request and candidate (`quota.whatif.backtest.Effect`)."""

_NO_BUCKET = "unlimited "


def effects(decisions: DataFrame, candidates: Sequence[Candidate], since: int | None = None) -> DataFrame:
    """What each candidate comes to (`EFFECTS`), and what was decided, for each decision from `since` (epoch ms) on.

    Earlier ones are judged, too, since a bucket is what all of them made of it, and senders may still wait for them.

    Args:
        decisions: their JSON, as `jobs.whatif.recorded.Traffic` has it.
        candidates: what to judge by.
        since: from when on they count.
    """
    placed = decisions.mapInArrow(partial(_place, candidates), _PLACED)
    return (
        in_bucket_order(placed, "candidate", "bucket")
        .select("candidate", "bucket", "decision", "resolution")
        .mapInArrow(partial(_judge, [each.algorithm for each in candidates], since), EFFECTS)
    )


_decode = msgspec.json.Decoder(RecordedDecision).decode
_decode_resolution = msgspec.json.Decoder(Resolution).decode


def _place(candidates: Sequence[Candidate], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(_PLACED)
    for batch in batches:
        texts = batch.column(0).to_pylist()
        # By time, because a callback can be told of changes only forwards.
        recorded = sorted(((_decode(text), text) for text in texts), key=lambda pair: pair[0].timestamp)
        rows = []
        for decision, text in recorded:
            place = (decision.timestamp, *msgspec.structs.astuple(decision.source), text)
            sender = Tags(decision.user, decision.client_id).key
            rows.append((AS_RECORDED, sender, *place, None))
            for number, candidate in enumerate(candidates):
                resolution = candidate.resolution(decision)
                bucket = resolution.tags.key if resolution.limit else _NO_BUCKET + sender
                rows.append((number, bucket, *place, codec.encode(resolution)))
        if rows:
            yield batch_of(rows, schema)


def _judge(
    algorithms: Sequence[Algorithm[Any]], since: int | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(EFFECTS)
    present: tuple[int, str] | None = None
    judge: Judge = AsRecorded()
    for batch in batches:
        rows = []
        for candidate, bucket, text, encoded in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if present != (candidate, bucket):
                present = (candidate, bucket)
                judge = AsRecorded() if candidate == AS_RECORDED else Again(algorithms[candidate])
            recorded = _decode(text)
            verdict = judge.judge(recorded, _resolved(recorded, encoded))
            effect = effect_of(recorded, verdict)
            counted = effect if since is None else effect.since(since)
            if counted is not None:
                differing = verdict.differing if counted.requests else ()
                named = recorded.decision_id if differing else None
                rows.append((candidate, *counted, list(differing), named))
        if rows:
            yield batch_of(rows, schema)


def _resolved(recorded: RecordedDecision, encoded: bytes | None) -> ResolvedRequest | None:
    return None if encoded is None else recorded.judged_by(_decode_resolution(encoded))
