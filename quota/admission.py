"""The decision itself: a fold over the requests of one bucket, in order (KIP-599)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Self, TypeVar

import msgspec

from quota.bucket import Bucket, Window, deepest_debt, in_debt, throttle_ms, tokens_at
from quota.decision import Decision, ErrorCode, Outcome, Repeat, Shadow, TopicDecision
from quota.record import Record
from quota.repeats import NOT_REMEMBERED, Answered, Repeats
from quota.request import Mode, MutationRequest, TopicMutation
from quota.resolution import ResolvedRequest
from quota.terms import Quota

T = TypeVar("T")

_ADMITTED = (ErrorCode.NONE.value, ErrorCode.NONE.name, None)
_REFUSED = (
    ErrorCode.THROTTLING_QUOTA_EXCEEDED.value,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED.name,
    "The throttling quota has been exceeded.",
)
"""What is said of a topic: the code, its name, and a message."""


class Admission(msgspec.Struct, frozen=True):
    """What a bucket says to one request: its state afterwards, the topics it admits, and what it tells."""

    bucket: Bucket | None
    admitted: Sequence[bool]
    controller_throttle_ms: int
    tokens_before: float | None
    tokens: float | None
    first: Answered | None = None
    """What was admitted of this very request before, and costs nothing now."""


def decide(
    bucket: Bucket | None, requests: Iterable[ResolvedRequest], window: Window, repeats: Repeats = NOT_REMEMBERED
) -> tuple[Bucket | None, list[Decision]]:
    """Decide requests that share a bucket, in the order given.

    Requests without a limit may come along with a bucket of None: they touch none.

    Args:
        bucket: the bucket before, None where it was never seen.
        requests: the requests.
        window: how much of a quota may be used at once.
        repeats: how long a request is remembered, so that it is not charged twice.

    Returns:
        The bucket afterwards, and one decision a request.
    """
    decisions = []
    for resolved in requests:
        admission = admit(bucket, resolved, window, repeats)
        bucket = admission.bucket
        decisions.append(_decision(resolved, admission, window))
    return bucket, decisions


def in_order(items: Iterable[T], record_of: Callable[[T], Record]) -> list[T]:
    """What came in records of one bucket, by (timestamp, partition, offset).

    Inside a partition the offset decides, even where a broker's clock stepped back: so one
    partition's requests are decided alike however they are cut into batches.
    """
    newest: dict[tuple[str, int], int] = {}
    placed = []
    records = ((record_of(item), item) for item in items)
    for record, item in sorted(records, key=lambda pair: pair[0].source.offset):
        source, partition = record.source, (record.source.topic, record.source.partition)
        newest[partition] = max(record.timestamp, newest.get(partition, record.timestamp))
        placed.append(((newest[partition], source.topic, source.partition, source.offset), item))
    placed.sort(key=lambda pair: pair[0])
    return [item for _, item in placed]


def admit(kept: Bucket | None, resolved: ResolvedRequest, window: Window, repeats: Repeats) -> Admission:
    """Charge one request to a bucket; arguments as of `decide`."""
    resolution, request, now = resolved.resolution, resolved.request, resolved.record.timestamp
    limit = resolution.limit
    if limit is None:
        return Admission(kept, [True] * len(request.topics), 0, None, None)
    bucket = None if kept is not None and _is_reset(kept, resolution.reset_at) else kept
    before = tokens_at(now, bucket, limit, window)
    if request.validate_only:
        return Admission(kept, [True] * len(request.topics), 0, before, before)

    quota = limit.quota
    stored = before if bucket is None else bucket.tokens
    remembered = {} if bucket is None else bucket.remembered
    first = repeats.first(remembered, request, now)
    paid = first.topics if first else 0
    strict = request.mode is Mode.STRICT
    charged, tokens = _charge(before, stored, request.topics[paid:] if paid else request.topics, quota, strict=strict)
    admitted = [True] * paid + charged
    changed = any(charged)
    if changed and not repeats.window_ms:
        remembered = {}
    elif changed:
        answered = first or Answered(str(resolved.record.source), now, 0)
        remembered = repeats.remember(remembered, request, msgspec.structs.replace(answered, topics=sum(admitted)))
    throttled = not all(admitted) if strict else in_debt(tokens, stored)

    # A refused try leaves the bucket as it was, so that rounding cannot pile up over many tries.
    if bucket is None:
        bucket = Bucket(tokens, now, quota.rate, quota.burst, quota.max_debt_ms, resolution.reset_at, remembered)
    elif now < bucket.updated_at:  # a request that is late may know an older quota, which is not the bucket's any more
        bucket = msgspec.structs.replace(bucket, tokens=tokens, remembered=remembered)
    elif changed or bucket.differs(quota):
        bucket = Bucket(tokens, now, quota.rate, quota.burst, quota.max_debt_ms, bucket.reset_at, remembered)
    throttle = throttle_ms(tokens, bucket.tokens, quota.rate) if throttled else 0
    return Admission(bucket, admitted, throttle, before, tokens, first)


def _is_reset(bucket: Bucket, reset_at: int | None) -> bool:
    """Whether an operator has reset the bucket since: it is as if never seen."""
    return reset_at is not None and (bucket.reset_at is None or bucket.reset_at < reset_at)


def _charge(
    tokens: float, stored: float, topics: Sequence[TopicMutation], quota: Quota, *, strict: bool
) -> tuple[list[bool], float]:
    """Charge topic by topic; a strict request's topic is admitted only while the bucket is not in debt."""
    admitted = []
    for topic in topics:
        admit = not (strict and in_debt(tokens, stored))
        if admit:
            tokens = max(tokens - topic.partitions, min(tokens, deepest_debt(quota)))
        admitted.append(admit)
    return admitted, tokens


def _decision(resolved: ResolvedRequest, admission: Admission, window: Window) -> Decision:
    record, request, resolution = resolved.record, resolved.request, resolved.resolution
    quota = resolution.limit.quota if resolution.limit else None
    judged = _Told.of(request, admission.admitted, admission.controller_throttle_ms)
    told = _Told.of(request, [True] * len(request.topics), 0) if resolution.shadow else judged
    return Decision(  # by position: to sort thirty names takes msgspec longer than all the rest of a decision
        str(record.source),
        request.request_id,
        request.user,
        request.client_id,
        request.operation,
        request.validate_only,
        request.mode,
        resolution.tags.user,
        resolution.tags.client_id,
        dict(resolution.tags.more),
        resolution.callback,
        quota.rate if quota else None,
        window.burst(quota.rate, quota.burst) if quota else None,
        quota.max_debt_ms if quota else None,
        resolution.entity,
        resolution.exempt,
        told.outcome,
        [_topic(topic, admitted=each) for topic, each in zip(request.topics, told.admitted, strict=True)],
        told.controller_throttle_ms,
        request.request_throttle_ms,
        told.throttle_time_ms,
        record.timestamp + told.throttle_time_ms,
        judged.as_shadow() if resolution.shadow else None,
        admission.tokens_before,
        admission.tokens,
        record.timestamp,
        record.source,
        request.apply,
        None if request.expires_at is msgspec.UNSET else request.expires_at,
        Repeat(admission.first.decision_id, admission.first.topics) if admission.first else None,
    )


class _Told(msgspec.Struct, frozen=True):
    """What a client is told, or would have been."""

    outcome: Outcome
    admitted: Sequence[bool]
    controller_throttle_ms: int
    throttle_time_ms: int

    @classmethod
    def of(cls, request: MutationRequest, admitted: Sequence[bool], controller_throttle_ms: int) -> Self:
        throttle = max(request.request_throttle_ms, controller_throttle_ms - request.purgatory_ms, 0)
        return cls(_outcome(admitted), admitted, controller_throttle_ms, throttle)

    def as_shadow(self) -> Shadow:
        codes = [(_ADMITTED if each else _REFUSED)[0] for each in self.admitted]
        return Shadow(self.outcome, codes, self.controller_throttle_ms, self.throttle_time_ms)


def _outcome(admitted: Sequence[bool]) -> Outcome:
    if all(admitted):
        return Outcome.ADMITTED
    return Outcome.PARTIAL if any(admitted) else Outcome.REJECTED


def _topic(topic: TopicMutation, *, admitted: bool) -> TopicDecision:
    return TopicDecision(
        topic.name,
        topic.partitions,
        *(_ADMITTED if admitted else _REFUSED),
        count=topic.count,
        replication_factor=topic.replication_factor,
        assignments=topic.assignments,
        configs=topic.configs,
    )
