"""The decision itself: a fold over the requests of one bucket, in order (KIP-599)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Self, TypeVar

import msgspec

from quota.algorithms.algorithm import Admission, Algorithm, S
from quota.records.decision import Decision, ErrorCode, Outcome, Repeat, Shadow, TopicDecision
from quota.records.record import Record
from quota.records.request import MutationRequest, TopicMutation
from quota.timeline.resolution import ResolvedRequest

T = TypeVar("T")

_ADMITTED = (ErrorCode.NONE.value, ErrorCode.NONE.name, None)
_REFUSED = (
    ErrorCode.THROTTLING_QUOTA_EXCEEDED.value,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED.name,
    "The throttling quota has been exceeded.",
)
"""What is said of a topic: the code, its name, and a message."""

_UNLIMITED = (None, None, None)


def decide(
    state: S | None, requests: Iterable[ResolvedRequest], algorithm: Algorithm[S]
) -> tuple[S | None, list[Decision]]:
    """Decide requests that share a bucket, in the order given.

    Requests without a limit may come along with a state of None: they touch none.

    Args:
        state: the bucket's before, as the algorithm left it; None where it was never charged.
        requests: the requests.
        algorithm: what judges them; the jobs enforce `quota.algorithms.token_bucket.TokenBucket`.

    Returns:
        The bucket's state afterwards, and one decision a request.
    """
    decisions = []
    for resolved in requests:
        admission = algorithm.admit(state, resolved)
        state = admission.state
        decisions.append(_decision(resolved, admission, algorithm))
    return state, decisions


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


def _decision(resolved: ResolvedRequest, admission: Admission[S], algorithm: Algorithm[S]) -> Decision:
    record, request, resolution = resolved.record, resolved.request, resolved.resolution
    limit = resolution.limit
    rate, burst, max_debt_ms = algorithm.bounds(limit.quota) if limit else _UNLIMITED
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
        rate,
        burst,
        max_debt_ms,
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
