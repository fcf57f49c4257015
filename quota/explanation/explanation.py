"""The explanation of a decision, from recorded decisions and by deciding again with the code that enforces."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Self

import msgspec

from quota.algorithms.token_bucket import Admission, Bucket, TokenBucket, charge
from quota.errors import ErrorCode
from quota.explanation.quota_history import QuotaHistory, QuotaOrigin
from quota.explanation.refill import Refill, compute_refill, find_last_write
from quota.records.decision import Decision
from quota.records.fields import BEGINNING
from quota.records.levels import Limit, Resolution, ResolvedRequest
from quota.records.quota_log import Quota, Window
from quota.records.record import Record
from quota.records.request import Mode

_TOLERANCE = 1e-9
"""Smaller differences of tokens, relative to them and in mutations, are rounding errors."""


class Charge(msgspec.Struct, frozen=True):
    """The effect of one topic on the bucket."""

    name: str
    partitions: int
    tokens_before: float
    tokens: float
    admitted: bool
    """Whether the quota admitted it, also where the quota is in shadow."""
    charged: bool
    """Whether it was charged: not if it was rejected, only validated, or charged before."""


class Recomputed(msgspec.Struct, frozen=True):
    """The decision computed again from the recorded K before the request."""

    error_codes: list[int]
    tokens: float
    controller_throttle_ms: int
    differs: list[str]
    """The fields of the decision that were recorded with another value; none if the decision is reproduced."""


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

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Return a decision as it is shown among others of its bucket."""
        return cls(
            decision.decision_id,
            decision.timestamp,
            decision.outcome.value,
            sum(topic.partitions for topic in decision.topics),
            decision.validate_only,
            decision.tokens_before,
            decision.tokens,
            decision.throttle_time_ms,
        )


class Explanation(msgspec.Struct, frozen=True):
    """The explanation of a decision; of an unlimited one, which has no bucket, only the decision."""

    decision: Decision
    set_quota: QuotaOrigin | None = None
    """The change that set the quota; None if it was not recorded, or a callback returned the quota."""
    refill: Refill | None = None
    charges: list[Charge] = []
    purgatory_ms: int = 0
    """The minimum time subtracted from the bucket's throttle time, because the broker held the request in purgatory
    [ms]."""
    recomputed: Recomputed | None = None
    before: list[Neighbour] = []
    after: list[Neighbour] = []


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other decisions of a bucket."""

    before: Iterable[Decision]
    """The earlier ones, newest first; read no further than needed."""
    after: Iterable[Decision]
    """The later ones, in order."""
    count: int = 0
    """The number of earlier and of later ones to show."""


def explain(decision: Decision, neighbours: Neighbours, quotas: QuotaHistory, window: Window) -> Explanation:
    """Explain a decision."""
    quota, recorded = decision.applied_quota, decision.tokens_before
    if quota is None or recorded is None:
        return Explanation(decision)
    earlier = iter(neighbours.before)
    nearest = list(islice(earlier, neighbours.count))
    last_write = find_last_write(chain(nearest, earlier))
    refill, bucket = compute_refill(decision, quota, last_write, quotas, window)
    reproduced = refill.tokens is not None and _close(refill.tokens, recorded)
    if bucket is not None and decision.timestamp < bucket.updated_at:  # late: it gained nothing
        bucket = msgspec.structs.replace(bucket, tokens=recorded)
    elif refill.tokens != recorded or (bucket and bucket.differs(quota)):  # the refill explains how K before came about
        bucket = Bucket(recorded, decision.timestamp, quota)
    admission = _admit_again(decision, quota, bucket, window)
    return Explanation(
        decision,
        quotas.origin(decision.quota_entity, decision.timestamp) if decision.quota_entity else None,
        refill,
        _charges(decision, quota, recorded, recorded if bucket is None else bucket.tokens),
        decision.purgatory_ms,
        _compare(decision, admission, differs=[] if reproduced else ["tokens_before"]),
        [Neighbour.of(before) for before in reversed(nearest)],
        [Neighbour.of(after) for after in islice(neighbours.after, neighbours.count)],
    )


def _admit_again(decision: Decision, quota: Quota, bucket: Bucket | None, window: Window) -> Admission:
    """Return the bucket's answer to the request without the topics that were charged before."""
    request = decision.request
    request = msgspec.structs.replace(request, topics=request.topics[decision.paid_topics :])
    resolution = Resolution(decision.tags, Limit(quota, BEGINNING), decision.quota_entity)
    resolved = ResolvedRequest(Record(decision.source, decision.timestamp, None), request, resolution)
    _, admission = TokenBucket(window).admit(bucket, resolved)
    return admission


def _compare(decision: Decision, admission: Admission, differs: list[str]) -> Recomputed:
    admitted = [*[True] * decision.paid_topics, *admission.admitted]
    codes = [int(ErrorCode.NONE if is_admitted else ErrorCode.THROTTLING_QUOTA_EXCEEDED) for is_admitted in admitted]
    tokens = math.nan if admission.tokens is None else admission.tokens
    same = {
        "topics": codes == decision.error_codes,
        "tokens": decision.tokens is not None and _close(tokens, decision.tokens),
        "controller_throttle_ms": admission.controller_throttle_ms == decision.verdict.controller_throttle_ms,
    }
    differs = [*differs, *(name for name in same if not same[name])]
    return Recomputed(codes, tokens, admission.controller_throttle_ms, differs)


def _charges(decision: Decision, quota: Quota, tokens: float, stored: float) -> list[Charge]:
    charges = []
    for number, topic in enumerate(decision.request.topics):
        admitted, charged, before = True, number >= decision.free_topics, tokens
        if charged:
            (admitted,), tokens = charge(tokens, stored, [topic], quota, strict=decision.mode is Mode.STRICT)
        charges.append(Charge(topic.name, topic.partitions, before, tokens, admitted, charged and admitted))
    return charges


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
