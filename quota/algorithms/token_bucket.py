"""The algorithm that is enforced: KIP-599's token bucket, topic by topic (`bucket.py` has its formulas)."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from quota.algorithms.algorithm import Admission, Bounds, is_reset
from quota.algorithms.bucket import Bucket, Window, deepest_debt, in_debt, throttle_ms, tokens_at
from quota.algorithms.deduplication import NO_DEDUPLICATION, AdmittedRequest, Deduplication
from quota.records.quota import Quota
from quota.records.request import Mode, TopicMutation
from quota.timeline.resolution import ResolvedRequest


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """A topic is admitted iff K >= 0, and K falls by its partitions; the wait is -K / R.

    It alone of the algorithms knows a quota's own burst and bound on debt, and remembers requests that are sent twice.
    """

    window: Window
    repeats: Deduplication = NO_DEDUPLICATION
    """How long a request is remembered, so that it is not charged twice."""

    def admit(self, state: Bucket | None, resolved: ResolvedRequest) -> Admission[Bucket]:
        """Charge one request to a bucket, as `quota.algorithms.algorithm.Algorithm` has it."""
        resolution, request, now = resolved.resolution, resolved.request, resolved.record.timestamp
        limit = resolution.limit
        if limit is None:
            return Admission(state, [True] * len(request.topics), 0, None, None)
        bucket = None if state is not None and is_reset(state.reset_at, resolution.reset_at) else state
        before = tokens_at(now, bucket, limit, self.window)
        if request.validate_only:
            return Admission(state, [True] * len(request.topics), 0, before, before)

        quota, repeats = limit.quota, self.repeats
        stored = before if bucket is None else bucket.tokens
        remembered = {} if bucket is None else bucket.remembered
        first = repeats.first(remembered, request, now)
        paid = first.topics if first else 0
        strict = request.mode is Mode.STRICT
        topics = request.topics[paid:] if paid else request.topics
        charged, tokens = charge(before, stored, topics, quota, strict=strict)
        admitted = [True] * paid + charged
        changed = any(charged)
        if changed and not repeats.window_ms:
            remembered = {}
        elif changed:
            answered = first or AdmittedRequest(str(resolved.record.source), now, 0)
            remembered = repeats.remember(remembered, request, msgspec.structs.replace(answered, topics=sum(admitted)))
        throttled = not all(admitted) if strict else in_debt(tokens, stored)

        # A refused try leaves the bucket as it was, so that rounding cannot pile up over many tries.
        if bucket is None:
            bucket = Bucket(tokens, now, quota.rate, quota.burst, quota.max_debt_ms, resolution.reset_at, remembered)
        elif now < bucket.updated_at:  # a late request may know an older quota, which is not the bucket's any more
            bucket = msgspec.structs.replace(bucket, tokens=tokens, remembered=remembered)
        elif changed or bucket.differs(quota):
            bucket = Bucket(tokens, now, quota.rate, quota.burst, quota.max_debt_ms, bucket.reset_at, remembered)
        throttle = throttle_ms(tokens, bucket.tokens, quota.rate) if throttled else 0
        return Admission(bucket, admitted, throttle, before, tokens, first)

    def bounds(self, quota: Quota) -> Bounds:
        """All that the quota says."""
        return quota.rate, self.window.burst(quota.rate, quota.burst), quota.max_debt_ms


def charge(
    tokens: float, stored: float, topics: Sequence[TopicMutation], quota: Quota, *, strict: bool
) -> tuple[list[bool], float]:
    """Charge topic by topic; a strict request's topic is admitted only while the bucket is not in debt.

    Args:
        tokens: what there is now.
        stored: what it was reckoned from, which says how much of a debt may be rounding.
        topics: in the request's order.
        quota: which may bound the debt.
        strict: of a client that knows the error.

    Returns:
        Which topics are admitted, and what there is afterwards.
    """
    admitted = []
    for topic in topics:
        admit = not (strict and in_debt(tokens, stored))
        if admit:
            tokens = max(tokens - topic.partitions, min(tokens, deepest_debt(quota)))
        admitted.append(admit)
    return admitted, tokens
