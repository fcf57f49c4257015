"""The token bucket of KIP-599, which is enforced: its tokens may go negative, and the debt sets the throttle time.

Units: rates in partition mutations per second, tokens in partition mutations, times in epoch milliseconds, throttle
times in milliseconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import msgspec

from quota.algorithms.deduplication import (
    NO_DEDUPLICATION,
    AdmittedRequest,
    AdmittedRequests,
    Deduplication,
    attempt_of,
)
from quota.records.decision import BucketBefore, Decision, Repeat, Withdrawal
from quota.records.levels import Limit, ResolvedRequest
from quota.records.quota_log import Quota, Window
from quota.records.record import Source
from quota.records.request import Mode, MutationRequest, Observed, TopicMutation

MAX_THROTTLE_MS = 2**31 - 1
"""`throttle_time_ms` is an int32 in Kafka's protocol."""

# A debt this small is a rounding error of floats and counts as zero: waiting for the throttle time is sufficient.
_ROUNDING_ABSOLUTE = 1e-9
_ROUNDING_RELATIVE = 1e-12
_CHARGE_DIGITS = 9


Clock = tuple[str, int]
"""The topic and the partition of a record: a partition's leader timestamps its records with one clock."""


class Bucket(msgspec.Struct, frozen=True):  # a struct, because each charge makes a new one
    """The state of a bucket, as of the last request that changed it.

    Its admitted requests alone are changed in place: to copy up to a thousand for each charge would cost as much as the
    decision.
    """

    tokens: float
    """K, in partition mutations; negative for a debt."""
    updated_at: int
    """T, the time at which K was written [epoch ms]."""
    quota: Quota
    """The quota that was applied at that time."""
    reset_at: int | None = None
    """The latest reset by an operator that this bucket has seen [epoch ms]."""
    admitted_requests: AdmittedRequests = msgspec.field(default_factory=AdmittedRequests)
    """The requests that were admitted recently, if deduplication is on."""
    clock: Clock | None = None
    """The partition whose timestamp T is; None if it is not known."""

    @classmethod
    def after(cls, decision: Decision) -> Self:
        """Return the bucket as left by `decision`, the last one on it; a late request has not changed T and quota."""
        quota, before = decision.applied_quota, decision.bucket_before
        if quota is None or decision.tokens is None:
            raise ValueError(f"{decision.decision_id} touched no bucket")
        quota = debt_quota(before, decision.timestamp, quota) if before else quota
        return cls(decision.tokens, decision.bucket_at, quota, clock=clock_of(decision.source, decision.observed))

    def differs(self, quota: Quota) -> bool:
        """Return whether the bucket was last used with other bounds than those of `quota`."""
        return self.quota is not quota and self.quota.bounds != quota.bounds


class Admission(msgspec.Struct, frozen=True):
    """The answer to one request."""

    admitted: Sequence[bool]
    """Whether each topic is admitted."""
    controller_throttle_ms: int = 0
    quota: Quota | None = None
    """The quota that was applied; None if the request is unlimited."""
    burst: float | None = None
    """The burst B that follows from it [mutations]."""
    tokens_before: float | None = None
    """The tokens before the request; None for a quota without tokens, or an unlimited request."""
    tokens: float | None = None
    """The tokens after it."""
    repeats: Repeat | None = None
    """The same request as it was admitted before; its topics are not charged again."""
    bucket_before: BucketBefore | None = None
    """The bucket before the request, from which the answer follows; None where `tokens_before` is."""
    withdraws: Withdrawal | None = None


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """The algorithm of KIP-599: a topic is admitted if K >= 0, and its partitions are subtracted from K.

    The throttle time is -K / Q seconds.
    """

    window: Window
    """S and W, which determine the burst of a quota without its own."""
    deduplication: Deduplication = NO_DEDUPLICATION
    """For how long, and how many, admitted requests are remembered, so that a repeat is not charged."""

    def admit(self, state: Bucket | None, resolved: ResolvedRequest) -> tuple[Bucket | None, Admission]:
        """Charge one request to a bucket: a function of the bucket, the request, its quota and its timestamp alone.

        An unlimited request touches no bucket, and a validate-only request is not charged; both are admitted. `state`
        is None if the bucket was never charged; its admitted requests become those of the returned bucket. A withdrawal
        gives back what the bucket remembers that its request was charged.

        Time never runs backwards: a request before T adds no tokens. If its partition wrote T, its clock was ahead
        then, or was set back since: T becomes the request's time, so that the bucket gains tokens again. If another
        partition or an observed request wrote T, or the request is observed, it is late, and its throttle time includes
        the time until T.
        """
        resolution, request, now = resolved.resolution, resolved.request, resolved.record.timestamp
        limit = resolution.limit
        if limit is None:
            return state, Admission([True] * len(request.topics))
        bucket = None if state is not None and is_reset(state.reset_at, resolution.reset_at) else state
        clock = clock_of(resolved.record.source, request.observed)
        deduplication = self.deduplication
        remembered = AdmittedRequests() if bucket is None else bucket.admitted_requests
        digest, quota = deduplication.identify(remembered, request, limit.quota, now)
        burst = self.window.burst(quota.rate, quota.burst)
        reset_at = None if state is None else resolution.reset_at
        before = (
            BucketBefore(burst, None, quota.rate, burst, quota.max_debt_ms, reset_at=reset_at)
            if bucket is None
            else _before(bucket, limit, now, self.window, clock)
        )
        known = remembered.find(digest) if digest else None
        repeats = None
        if request.validate_only:
            source = resolved.record.source
            withdraws = deduplication.withdrawn(known, request, source, now) if request.withdraws else None
            admission = charge_request(before, request, now, quota, burst, withdraws=withdraws)
            changed = withdraws is not None and withdraws.decision_id is not None
            if not changed:
                return state, admission
            remembered.forget(digest)
        else:
            repeated = deduplication.repeated(known, now)
            repeats = Repeat(str(repeated.source), repeated.topics) if repeated else None
            admission = charge_request(before, request, now, quota, burst, repeats)
            changed = any(admission.admitted[repeats.topics :] if repeats else admission.admitted)
            if digest and (changed or repeats):
                seen = _seen(repeated, resolved, admission)
                remembered.put(digest, seen, deduplication, is_new=known is None)
            elif changed and remembered:
                remembered = AdmittedRequests()

        # A rejected request leaves the bucket unchanged, so that rounding errors do not accumulate over many of them.
        tokens = before.tokens if admission.tokens is None else admission.tokens
        if bucket is None:
            bucket = Bucket(tokens, now, quota, resolution.reset_at, remembered, clock)
        elif before.late_ms(now):  # a late request may know an older quota, which is no longer the bucket's
            bucket = msgspec.structs.replace(bucket, tokens=tokens, admitted_requests=remembered)
        elif changed or before.changed_at is not None:
            bucket = Bucket(tokens, now, quota, bucket.reset_at, remembered, clock)
        elif repeats or before.set_back_to is not None:
            since = bucket.updated_at if before.set_back_to is None else before.set_back_to
            bucket = msgspec.structs.replace(bucket, updated_at=since, admitted_requests=remembered)
        return bucket, admission


def _seen(repeats: AdmittedRequest | None, resolved: ResolvedRequest, admission: Admission) -> AdmittedRequest:
    """Return the entry of a request that is seen now, for the first time unless it repeats one."""
    before, after = admission.tokens_before or 0.0, admission.tokens or 0.0
    topics = len(bytes(admission.admitted).rstrip(b"\0"))  # up to the last admitted one
    charge = round(before - after, _CHARGE_DIGITS)
    record, attempt = resolved.record, attempt_of(resolved.request, repeats)
    if repeats is None:
        return AdmittedRequest(record.source, record.timestamp, topics, charge, attempt)
    seen_at = max(repeats.timestamp, record.timestamp)
    return AdmittedRequest(repeats.source, seen_at, topics, repeats.charge + charge, attempt)


def clock_of(source: Source, observed: Observed | None) -> Clock | None:
    """Return the clock that timestamped a request; None for an observed one, whose time is of a log's line.

    Logs have the order in which requests were answered, and several logs may be written to one partition.
    """
    return None if observed else (source.topic, source.partition)


def charge_request(  # noqa: PLR0913, PLR0917
    before: BucketBefore,
    request: MutationRequest,
    now: int,
    quota: Quota,
    burst: float,
    repeats: Repeat | None = None,
    withdraws: Withdrawal | None = None,
) -> Admission:
    """Return the answer of a bucket to a request at `now` (epoch ms): a function of these arguments alone.

    `quota` is the present one and `burst` its B; `repeats` is the same request as it was admitted before, and
    `withdraws` what a withdrawal gives back. A decision holds all of them, so that this function explains it, too.
    """
    held = refill(before, now, quota, burst)
    if request.validate_only:
        most = before.burst if before.late_ms(now) else burst
        tokens = max(held, min(held + withdraws.mutations, most)) if withdraws else held
        return Admission([True] * len(request.topics), 0, quota, burst, held, tokens, None, before, withdraws)
    stored = held if before.updated_at is None else before.tokens
    paid, strict = repeats.topics if repeats else 0, request.mode is Mode.STRICT
    quota_of_debt = debt_quota(before, now, quota)
    topics = request.topics[paid:] if paid else request.topics
    charged, tokens = charge(held, stored, topics, quota_of_debt, strict=strict)
    throttle, within = 0, answers_within_limit(charged, topics, quota)
    if (not all(within)) if strict else (within or paid) and in_debt(tokens, stored):
        late_ms = before.late_ms(now)
        writes = before.updated_at is None or before.changed_at is not None or any(charged)
        throttle = throttle_ms(tokens, tokens if writes else stored, quota_of_debt.rate, late_ms)
    admitted = [topic.partitions <= quota.topic_limit for topic in request.topics[:paid]] + charged if paid else charged
    return Admission(admitted, throttle, quota, burst, held, tokens, repeats, before)


def debt_quota(before: BucketBefore, now: int, quota: Quota) -> Quota:
    """Return the quota that bounds the debt of a request at `now` (epoch ms), and at whose rate the debt is paid.

    That of a late request may be an older one than the bucket's, which is in force when its client tries again. The
    limit of a topic stays the request's own.
    """
    if not before.late_ms(now):
        return quota
    return msgspec.structs.replace(quota, rate=before.quota, burst=before.burst, max_debt_ms=before.max_debt_ms)


def charge(
    tokens: float, stored: float, topics: Sequence[TopicMutation], quota: Quota, *, strict: bool
) -> tuple[list[bool], float]:
    """Charge topic by topic; return whether each is admitted, and the tokens afterwards.

    A topic of a strict request is admitted only while the bucket is not in debt, and one that exceeds the limit of the
    quota never. `stored` are the tokens in the state: their magnitude bounds the rounding error of `tokens`, those now.
    """
    admitted = []
    least, limit = min_tokens(quota), quota.topic_limit
    for topic in topics:
        admit = topic.partitions <= limit and not (strict and in_debt(tokens, stored))
        if admit:
            tokens = max(tokens - topic.partitions, min(tokens, least))
        admitted.append(admit)
    return admitted, tokens


def answers_within_limit(admitted: list[bool], topics: Sequence[TopicMutation], quota: Quota) -> list[bool]:
    """Return the answers to the topics that do not exceed the limit of the quota: the others throttle nobody."""
    limit = quota.topic_limit
    if limit == math.inf:
        return admitted
    return [admit for admit, topic in zip(admitted, topics, strict=True) if topic.partitions <= limit]


def is_reset(seen: int | None, reset_at: int | None) -> bool:
    """Return whether an operator has reset a bucket since the last reset that it has `seen` (epoch ms)."""
    return reset_at is not None and (seen is None or seen < reset_at)


def tokens_at(now: int, bucket: Bucket | None, limit: Limit, window: Window) -> float:
    """Return K at `now`: the stored tokens and those gained since T, at most the burst B.

    A bucket that was never charged is full. An earlier `now` does not change the tokens. If the quota has changed, the
    bucket gained tokens at the old rate until the change and at the present rate from then on, so that a raised quota
    does not grant tokens for the past.
    """
    burst = window.burst(limit.quota.rate, limit.quota.burst)
    return burst if bucket is None else refill(_before(bucket, limit, now, window), now, limit.quota, burst)


def _before(bucket: Bucket, limit: Limit, now: int, window: Window, clock: Clock | None = None) -> BucketBefore:
    """Return a bucket as a request at `now` finds it, whose partition has this clock."""
    used, since, set_back_to, changed_at = bucket.quota, bucket.updated_at, None, None
    if now < since and clock is not None and clock == bucket.clock:
        since = set_back_to = now
    if now >= since and bucket.differs(limit.quota):
        changed_at = max(min(limit.since, now), since)
    burst = window.burst(used.rate, used.burst)
    return BucketBefore(bucket.tokens, bucket.updated_at, used.rate, burst, used.max_debt_ms, changed_at, set_back_to)


def refill(before: BucketBefore, now: int, quota: Quota, burst: float) -> float:
    """Return K at `now` (epoch ms), by the bucket before and the present quota, whose B is `burst`."""
    tokens, since = before.tokens, before.updated_at
    if since is None:  # full
        return tokens
    if before.late_ms(now):  # the burst at that time may be less than the current one
        return min(tokens, before.burst)
    if before.set_back_to is not None:
        since = before.set_back_to
    if before.changed_at is not None:
        tokens = gain(tokens, before.quota, before.changed_at - since, before.burst)
        tokens = max(tokens, min_tokens(quota))
        since = before.changed_at
    return gain(tokens, quota.rate, now - since, burst)


def min_tokens(quota: Quota) -> float:
    """Return the lowest K that a quota allows."""
    return -math.inf if quota.max_debt_ms is None else -quota.rate * (quota.max_debt_ms / 1000)


def in_debt(tokens: float, stored: float) -> bool:
    """Return whether K is below zero by more than the rounding error of a `stored` K of this size."""
    return tokens < -_rounding(stored)


def throttle_ms(tokens: float, stored: float, rate: float, late_ms: int = 0) -> int:
    """Return the time until K is zero again: -K / Q seconds, in ms rounded up, at most `MAX_THROTTLE_MS`.

    A late request also waits `late_ms`, until the time of the bucket.

    Kafka rounds half up; this rounds up, because a client that waits for the throttle time must not be rejected again.
    The rounding error of the stored K is subtracted first, or its last bit would cost a millisecond.
    """
    wait = (-tokens - _rounding(stored) / 2) / rate * 1000
    # "Not less" is also true of NaN, from a record that enforce did not write.
    return MAX_THROTTLE_MS if not wait < MAX_THROTTLE_MS else min(max(0, math.ceil(wait)) + late_ms, MAX_THROTTLE_MS)


def told_throttle_ms(request: MutationRequest, controller_throttle_ms: int) -> int:
    """Return `throttle_time_ms`, the throttle time that the client is told (KIP-219) [ms].

    It is that of the bucket (`throttle_ms`), less the time in purgatory, or that of the
    request quota if this is longer.
    """
    return max(request.request_throttle_ms, controller_throttle_ms - request.purgatory_ms, 0)


def gain(tokens: float, rate: float, elapsed_ms: int, burst: float) -> float:
    """Return the tokens after a time in which they grew by `rate`, up to `burst`."""
    return min(tokens + elapsed_ms / 1000 * rate, burst)


def _rounding(stored: float) -> float:
    return _ROUNDING_ABSOLUTE + _ROUNDING_RELATIVE * abs(stored)
