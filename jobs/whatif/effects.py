"""The folds of a backtest: recorded requests are decided with each candidate, in the order of each bucket.

Requests are resolved once per candidate, sorted by bucket and position, and folded in a stream. So a bucket of
millions of requests needs no more memory than a bucket of ten.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, get_type_hints

import msgspec
import pyarrow as pa
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

from jobs.spark.worker import prepare_worker
from jobs.whatif.engine import DECISIONS, Engine, Stage, record_batch
from quota.admission.decide import decide_next
from quota.records import codec
from quota.records.decision import Decision
from quota.records.entity import Tags
from quota.timeline.levels import Resolution
from quota.whatif.backtest import Effect, differing_fields
from quota.whatif.evaluation import Candidate
from quota.whatif.rates import Algorithm
from quota.whatif.recorded import resolved_to
from schemas.kafka import SOURCE

AS_RECORDED = -1
"""The candidate number of the recorded decisions."""

_RESOLVED = StructType(
    [
        StructField("candidate", IntegerType()),
        StructField("bucket", StringType()),
        StructField("timestamp", LongType()),
        *SOURCE.fields,
        StructField("decision", BinaryType()),  # JSON of a decision
        StructField("resolution", BinaryType()),  # JSON; null for the recorded decision, which is not replayed
    ]
)

_KINDS = {str: StringType(), int: LongType()}

EFFECTS = StructType(
    [
        StructField("candidate", IntegerType()),
        *(StructField(name, _KINDS[kind]) for name, kind in get_type_hints(Effect).items()),
        StructField("differing", ArrayType(StringType())),  # the fields that differ from the recorded decision
        StructField("decision_id", StringType()),  # only if a field differs
    ]
)
"""The rows of effects: one per request and candidate (`quota.whatif.backtest.Effect`)."""

_RESOLVE = Stage("finding quotas", DECISIONS, "resolved", _RESOLVED)
_DECIDE = Stage("deciding again", "resolved", "effects", EFFECTS, bucket=("candidate", "bucket"))

_NO_BUCKET = "unlimited "


def compute_effects(engine: Engine, candidates: Sequence[Candidate], since: int | None = None) -> None:
    """Compute the table `effects` (`EFFECTS`): those of the recorded decisions and of each candidate's.

    Requests before `since` are decided, too: they are part of a bucket's history, and their senders may be throttled.
    """
    engine.run(_RESOLVE, partial(_resolve_batches, candidates))
    engine.run(_DECIDE, partial(_decide_batches, [candidate.algorithm for candidate in candidates], since))


_decode = msgspec.json.Decoder(Decision).decode
_decode_resolution = msgspec.json.Decoder(Resolution).decode


def _resolve_batches(candidates: Sequence[Candidate], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    prepare_worker(__name__)
    schema = to_arrow_schema(_RESOLVED)
    for batch in batches:
        encoded = batch.column(0).to_pylist()
        # Sorted by time, because a callback cannot go back to earlier quotas.
        recorded = sorted(((_decode(record), record) for record in encoded), key=lambda pair: pair[0].timestamp)
        rows = []
        for decision, text in recorded:
            row = (decision.timestamp, *msgspec.structs.astuple(decision.source), text)
            sender = Tags(decision.user, decision.client_id).key
            rows.append((AS_RECORDED, sender, *row, None))
            for number, candidate in enumerate(candidates):
                resolution = candidate.resolve(decision)
                bucket = resolution.tags.key if resolution.limit else _NO_BUCKET + sender
                rows.append((number, bucket, *row, codec.encode(resolution)))
        if rows:
            yield record_batch(rows, schema)


def _decide_batches(
    algorithms: Sequence[Algorithm], since: int | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    prepare_worker(__name__)
    schema = to_arrow_schema(EFFECTS)
    current: tuple[int, str] | None = None
    state: Any = None
    for batch in batches:
        rows = []
        columns = (batch.column(name).to_pylist() for name in ("candidate", "bucket", "decision", "resolution"))
        for candidate, bucket, text, resolution in zip(*columns, strict=True):
            if current != (candidate, bucket):
                current, state = (candidate, bucket), None
            decision = recorded = _decode(text)
            if candidate != AS_RECORDED:
                resolved = resolved_to(recorded, _decode_resolution(resolution))
                state, decision = decide_next(state, resolved, algorithms[candidate])
            effect = Effect.of(decision, recorded)
            counted = effect if since is None else effect.counted_from(since)
            if counted is not None:
                compared = counted.requests and decision is not recorded
                differing = differing_fields(decision, recorded) if compared else ()
                rows.append((candidate, *counted, list(differing), recorded.decision_id if differing else None))
        if rows:
            yield record_batch(rows, schema)
