"""The project's bucket, charged as by the job."""

from collections.abc import Sequence as Steps
from typing import Any

from quota.admission.decide import decide
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import Limit, Resolution, ResolvedRequest
from quota.records.quota_log import Quota
from quota.records.record import BEGINNING, Record, Source
from quota.records.request import Mode, MutationRequest, Operation, TopicMutation
from tests.evidence.conformance.bucket.sequences import Change, Sequence, Try
from tests.support.factories import PERMISSIVE, STRICT

_NAMES = [f"topic-{number}" for number in range(10)]


def play(sequence: Sequence, times: Steps[int], **options: Any) -> list[Decision | None]:
    """Return the decisions of `quota.admission.decide.decide` on the attempts; None for other steps."""
    bucket: Bucket | None = None
    resolution = Resolution(Tags("alice", ""), None, None)
    decisions: list[Decision | None] = []
    for number, (step, at) in enumerate(zip(sequence.steps, times, strict=True)):
        decision = None
        if isinstance(step, Change):
            limit = None
            if step.rate is not None:
                limit = Limit(Quota(step.rate, **options), at if number else BEGINNING)
            resolution = Resolution(Tags("alice", ""), limit, QuotaEntity("alice"))
        elif isinstance(step, Try):
            resolved = _resolved(step, at, resolution)
            bucket, decision = decide(bucket, resolved, TokenBucket(sequence.window))
        decisions.append(decision)
    return decisions


def _resolved(step: Try, at: int, resolution: Resolution) -> ResolvedRequest:
    request = MutationRequest(
        request_id="r",
        operation=Operation.CREATE_TOPICS,
        api_version=STRICT if step.mode is Mode.STRICT else PERMISSIVE,
        topics=[TopicMutation(name, cost) for name, cost in zip(_NAMES, step.costs, strict=False)],
    )
    return ResolvedRequest(Record(Source("mutation-requests", 0, 0), at, None), request, resolution)
