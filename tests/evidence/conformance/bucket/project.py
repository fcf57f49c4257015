"""The project's bucket, as the job drives it."""

from collections.abc import Sequence as Steps

from quota.admission.decide import decide
from quota.algorithms.bucket import Bucket
from quota.algorithms.token_bucket import TokenBucket
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity, Tags
from quota.records.fields import SINCE_EVER
from quota.records.quota import Limit, Quota
from quota.records.record import Record, Source
from quota.records.request import Mode, MutationRequest, Operation, TopicMutation
from quota.timeline.resolution import Resolution, ResolvedRequest
from tests.evidence.conformance.sequences import Change, Sequence, Try
from tests.support.factories import PERMISSIVE, STRICT

_NAMES = [f"topic-{number}" for number in range(10)]


def play(
    sequence: Sequence, times: Steps[int], *, validate_only: bool = False, **options: float | None
) -> list[Decision | None]:
    """What `quota.admission.decide.decide` says to each try at these times (epoch ms); None for what is no try.

    Args:
        sequence: the steps.
        times: of each step.
        validate_only: of the tries.
        options: of each quota, over its rate.
    """
    bucket: Bucket | None = None
    resolution = Resolution(Tags("alice", ""), None, None)
    decisions: list[Decision | None] = []
    for number, (step, at) in enumerate(zip(sequence.steps, times, strict=True)):
        decision = None
        if isinstance(step, Change):
            limit = None
            if step.rate is not None:
                limit = Limit(Quota(step.rate, **options), at if number else SINCE_EVER)
            resolution = Resolution(Tags("alice", ""), limit, QuotaEntity("alice"))
        elif isinstance(step, Try):
            asked = _resolved(step, at, resolution, validate_only=validate_only)
            bucket, (decision,) = decide(bucket, [asked], TokenBucket(sequence.window))
        decisions.append(decision)
    return decisions


def _resolved(step: Try, at: int, resolution: Resolution, *, validate_only: bool) -> ResolvedRequest:
    request = MutationRequest(
        request_id="r",
        operation=Operation.CREATE_TOPICS,
        api_version=STRICT if step.mode is Mode.STRICT else PERMISSIVE,
        topics=[TopicMutation(name, cost) for name, cost in zip(_NAMES, step.costs, strict=False)],
        validate_only=validate_only,
    )
    return ResolvedRequest(Record(Source("mutation-requests", 0, 0), at, None), request, resolution)
