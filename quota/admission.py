"""The decision itself: a fold over the requests of one bucket, in order (KIP-599)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from quota.bucket import Bucket, Limit, Window, in_debt, throttle_ms, tokens_at
from quota.decision import Decision, ErrorCode, Outcome, TopicDecision
from quota.record import Record
from quota.request import Mode, MutationRequest, TopicMutation
from quota.resolution import ResolvedRequest

T = TypeVar("T")

_REFUSED_MESSAGE = "The throttling quota has been exceeded."


@dataclass(frozen=True, slots=True)
class _Admission:
    """What a bucket says to one request: its state afterwards, the topics it refused, and what it tells."""

    bucket: Bucket | None
    admitted: Sequence[bool]
    controller_throttle_ms: int
    tokens_before: float | None
    tokens: float | None


def decide(
    bucket: Bucket | None, requests: Iterable[ResolvedRequest], window: Window
) -> tuple[Bucket | None, list[Decision]]:
    """Decide requests that share a bucket, in the order given.

    Requests without a limit may come along with a bucket of None: they touch none.

    Returns:
        The bucket afterwards, and one decision a request.
    """
    decisions = []
    for resolved in requests:
        admission = _admit(bucket, resolved.resolution.limit, resolved.request, resolved.record.timestamp, window)
        bucket = admission.bucket
        decisions.append(_decision(resolved, admission))
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


def _admit(
    bucket: Bucket | None, limit: Limit | None, request: MutationRequest, now: int, window: Window
) -> _Admission:
    if limit is None:
        return _Admission(bucket, [True] * len(request.topics), 0, None, None)
    before = tokens_at(now, bucket, limit, window)
    if request.validate_only:
        return _Admission(bucket, [True] * len(request.topics), 0, before, before)

    stored = before if bucket is None else bucket.tokens
    admitted, tokens = _charge(before, stored, request.topics, request.mode)
    throttled = not all(admitted) if request.mode is Mode.STRICT else in_debt(tokens, stored)

    # A refused try leaves the bucket as it was, so that rounding cannot pile up over many tries.
    if bucket is None or any(admitted) or bucket.rate != limit.rate:
        updated_at = now if bucket is None else max(now, bucket.updated_at)
        bucket = Bucket(tokens, updated_at, limit.rate)
    throttle = throttle_ms(tokens, bucket.tokens, limit.rate) if throttled else 0
    return _Admission(bucket, admitted, throttle, before, tokens)


def _charge(tokens: float, stored: float, topics: Sequence[TopicMutation], mode: Mode) -> tuple[list[bool], float]:
    """Charge topic by topic; a strict request's topic is admitted only while the bucket is not in debt."""
    admitted = []
    for topic in topics:
        admit = mode is Mode.PERMISSIVE or not in_debt(tokens, stored)
        if admit:
            tokens -= topic.partitions
        admitted.append(admit)
    return admitted, tokens


def _decision(resolved: ResolvedRequest, admission: _Admission) -> Decision:
    record, request, resolution = resolved.record, resolved.request, resolved.resolution
    throttle_time_ms = max(request.request_throttle_ms, admission.controller_throttle_ms - request.purgatory_ms, 0)
    return Decision(
        decision_id=str(record.source),
        request_id=request.request_id,
        user=request.user,
        client_id=request.client_id,
        operation=request.operation,
        validate_only=request.validate_only,
        mode=request.mode,
        user_tag=resolution.tags.user,
        client_tag=resolution.tags.client_id,
        quota=resolution.limit.rate if resolution.limit else None,
        quota_entity=resolution.entity,
        outcome=_outcome(admission.admitted),
        topics=[
            _topic(topic, admitted=admitted) for topic, admitted in zip(request.topics, admission.admitted, strict=True)
        ],
        controller_throttle_ms=admission.controller_throttle_ms,
        request_throttle_ms=request.request_throttle_ms,
        throttle_time_ms=throttle_time_ms,
        retry_at=record.timestamp + throttle_time_ms,
        tokens_before=admission.tokens_before,
        tokens=admission.tokens,
        timestamp=record.timestamp,
        source=record.source,
    )


def _outcome(admitted: Sequence[bool]) -> Outcome:
    if all(admitted):
        return Outcome.ADMITTED
    return Outcome.PARTIAL if any(admitted) else Outcome.REJECTED


def _topic(topic: TopicMutation, *, admitted: bool) -> TopicDecision:
    code = ErrorCode.NONE if admitted else ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return TopicDecision(topic.name, topic.partitions, code.value, code.name, None if admitted else _REFUSED_MESSAGE)
