"""How a decision came about: told from what was recorded, and decided once more by the code that decides."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice

import msgspec

from quota.algorithms.algorithm import Admission
from quota.algorithms.bucket import Bucket, Window
from quota.algorithms.token_bucket import TokenBucket, charge
from quota.explanation.quota_history import QuotaHistory, QuotaOrigin
from quota.explanation.refill import Refill, compute_refill, judged_codes, last_write, quota_of
from quota.records.decision import Decision, ErrorCode, paid_topics
from quota.records.entity import Tags
from quota.records.fields import SINCE_EVER
from quota.records.quota import Limit, Quota
from quota.records.record import Record
from quota.records.request import STRICT_SINCE, Mode, MutationRequest, TopicMutation
from quota.timeline.resolution import Resolution, ResolvedRequest

_CLOSE = 1e-9
"""Of K, relatively and in mutations: what is less than this beside it is rounding."""


class Charge(msgspec.Struct, frozen=True):
    """What one topic did to the bucket."""

    name: str
    partitions: int
    tokens_before: float
    tokens: float
    admitted: bool
    """By the quota, also where that is in shadow."""
    charged: bool
    """Not where it was only to be validated, was refused, or was paid for before."""


class Recomputed(msgspec.Struct, frozen=True):
    """The decision made once more, from K before as it was recorded."""

    error_codes: list[int]
    tokens: float
    controller_throttle_ms: int
    differs: list[str]
    """What was recorded otherwise, by the names of the decision's fields; none: it comes out the same."""


class Neighbour(msgspec.Struct, frozen=True):
    """Another decision of the bucket."""

    decision_id: str
    timestamp: int
    outcome: str
    mutations: int
    validate_only: bool
    tokens_before: float | None
    tokens: float | None
    throttle_time_ms: int


class Explanation(msgspec.Struct, frozen=True):
    """How a decision came about. Where it was unlimited there is no bucket, and nothing but the decision."""

    decision: Decision
    """As it was recorded."""
    set_quota: QuotaOrigin | None = None
    """By which change the quota was set; None where that is not kept, or a callback gave it."""
    refill: Refill | None = None
    charges: list[Charge] = []
    purgatory_ms: int = 0
    """How much of the bucket's wait was taken off, because the broker had kept the request back; at least so much."""
    recomputed: Recomputed | None = None
    before: list[Neighbour] = []
    after: list[Neighbour] = []


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The decisions of a bucket around one of them."""

    before: Iterable[Decision]
    """The newest first; no more of them are read than are needed."""
    after: Iterable[Decision]
    """In their order."""
    told: int = 0
    """How many of each are told."""


def explain(decision: Decision, around: Neighbours, quotas: QuotaHistory, window: Window) -> Explanation:
    """Explain a decision.

    Args:
        decision: as it was recorded.
        around: what else its bucket decided.
        quotas: the quota log.
        window: of a quota whose burst was not recorded.
    """
    quota, recorded = quota_of(decision), decision.tokens_before
    if quota is None or recorded is None:
        return Explanation(decision)
    reading = iter(around.before)
    nearest = list(islice(reading, around.told))
    written = last_write(chain(nearest, reading))
    refill, bucket = compute_refill(decision, quota, written, quotas, window)
    as_reckoned = refill.tokens is not None and _close(refill.tokens, recorded)
    if refill.tokens != recorded or (bucket and bucket.differs(quota)):  # the step to K before is told by the refill
        bucket = Bucket(recorded, decision.timestamp, *quota.bounds)
    admission = _admitted_again(decision, quota, bucket, window)
    return Explanation(
        decision,
        quotas.set_quota(decision.quota_entity, decision.timestamp) if decision.quota_entity else None,
        refill,
        _charges(decision, quota, recorded, recorded if bucket is None else bucket.tokens),
        _purgatory(decision),
        _compared(decision, admission, before=[] if as_reckoned else ["tokens_before"]),
        [_neighbour(each) for each in reversed(nearest)],
        [_neighbour(each) for each in islice(around.after, around.told)],
    )


def _admitted_again(decision: Decision, quota: Quota, bucket: Bucket | None, window: Window) -> Admission[Bucket]:
    """What the bucket says to the request, of which the topics that were paid for before are left out."""
    request = MutationRequest(
        decision.request_id,
        decision.operation,
        STRICT_SINCE[decision.operation] if decision.mode is Mode.STRICT else 0,
        [TopicMutation(topic.name, topic.partitions) for topic in decision.topics[paid_topics(decision.repeats) :]],
        decision.user,
        decision.client_id,
        decision.validate_only,
    )
    tags = Tags(decision.user_tag, decision.client_tag)
    resolution = Resolution(tags, Limit(quota, SINCE_EVER), decision.quota_entity)
    resolved = ResolvedRequest(Record(decision.source, decision.timestamp, None), request, resolution)
    return TokenBucket(window).admit(bucket, resolved)


def _compared(decision: Decision, admission: Admission[Bucket], before: list[str]) -> Recomputed:
    admitted = [*[True] * paid_topics(decision.repeats), *admission.admitted]
    codes = [int(ErrorCode.NONE if each else ErrorCode.THROTTLING_QUOTA_EXCEEDED) for each in admitted]
    tokens = math.nan if admission.tokens is None else admission.tokens
    throttle = (decision.shadow or decision).controller_throttle_ms
    alike = {
        "topics": codes == judged_codes(decision),
        "tokens": decision.tokens is not None and _close(tokens, decision.tokens),
        "controller_throttle_ms": admission.controller_throttle_ms == throttle,
    }
    differs = [*before, *(name for name, same in alike.items() if not same)]
    return Recomputed(codes, tokens, admission.controller_throttle_ms, differs)


def _charges(decision: Decision, quota: Quota, tokens: float, stored: float) -> list[Charge]:
    found = []
    for number, topic in enumerate(decision.topics):
        admitted, charged, before = True, not decision.validate_only and number >= paid_topics(decision.repeats), tokens
        if charged:
            mutation = TopicMutation(topic.name, topic.partitions)
            (admitted,), tokens = charge(tokens, stored, [mutation], quota, strict=decision.mode is Mode.STRICT)
        found.append(Charge(topic.name, topic.partitions, before, tokens, admitted, charged and admitted))
    return found


def _purgatory(decision: Decision) -> int:
    """What was taken off the bucket's wait; where the request's own throttle was longer, it may have been more."""
    judged = decision.shadow or decision
    return max(0, judged.controller_throttle_ms - judged.throttle_time_ms)


def _neighbour(decision: Decision) -> Neighbour:
    return Neighbour(
        decision.decision_id,
        decision.timestamp,
        decision.outcome.value,
        _mutations(decision),
        decision.validate_only,
        decision.tokens_before,
        decision.tokens,
        decision.throttle_time_ms,
    )


def _mutations(decision: Decision) -> int:
    return sum(topic.partitions for topic in decision.topics)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
