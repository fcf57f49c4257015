"""The decision: a fold over the requests of one bucket, in order (KIP-599, ADR 0002)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, Self

import msgspec

from quota.admission.order import in_order, position_of
from quota.admission.policy import Policy
from quota.admission.resolve import restore
from quota.algorithms.token_bucket import Admission, told_throttle_ms
from quota.errors import ErrorCode
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision, Outcome, Shadow, TopicDecision, Withdrawal
from quota.records.levels import Resolution, ResolvedRequest
from quota.records.quota_log import LIMIT_CONFIG
from quota.records.reason import Reason
from quota.records.record import Record
from quota.records.request import MutationRequest, TopicMutation
from quota.text import plural

_ADMITTED = (ErrorCode.NONE.value, ErrorCode.NONE.name, None, None)
_REJECTED = (
    ErrorCode.THROTTLING_QUOTA_EXCEEDED.value,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED.name,
    "The throttling quota has been exceeded.",
    Reason.EXHAUSTED,
)
"""`_ADMITTED`, `_REJECTED`: Kafka's error code, error name and message of a topic, and the reason of a rejection."""


class Admitting(Protocol):
    """An algorithm: of the token bucket, or of a quota that is only simulated."""

    def admit(self, state: Any, resolved: ResolvedRequest) -> tuple[Any, Admission]:  # noqa: ANN401 its own state
        """Charge one request to a bucket; return its state afterwards, and the answer."""


def decide(
    state: Any,  # noqa: ANN401 that of the algorithm
    resolved: ResolvedRequest,
    algorithm: Admitting,
) -> tuple[Any, Decision]:
    """Decide the next request of a bucket; return the bucket's state afterwards, and the decision.

    The state is None if the bucket was never charged; it is not to be used again, because what it remembers of earlier
    requests is in the returned one.
    """
    state, admission = algorithm.admit(state, resolved)
    return state, decision_of(resolved, admission)


def decide_records(
    state: Any,  # noqa: ANN401 that of the algorithm
    records: Iterable[tuple[Record, Resolution | str]],
    algorithm: Admitting,
    policy: Policy,
    *,
    of_bucket: bool,
) -> Iterator[tuple[Any, Record, Decision | DeadLetter]]:
    """Decide resolved records (`quota.admission.resolve.restore`); yield the state after each, the record, its answer.

    Records of a bucket come in any order. They are put in order before they are parsed, when they take a fraction of
    the memory.
    """
    if of_bucket:
        records = in_order(records, lambda pair: position_of(pair[0]))
    for record, found in records:
        resolved = restore(record, found, policy)
        if isinstance(resolved, DeadLetter):
            yield state, record, resolved
        else:
            state, decision = decide(state, resolved, algorithm)
            yield state, record, decision


def decision_of(resolved: ResolvedRequest, admission: Admission) -> Decision:
    """Return the decision on a request from the answer of its bucket."""
    record, request, resolution = resolved.record, resolved.request, resolved.resolution
    quota = admission.quota
    limit = quota.topic_limit if quota else math.inf
    verdict = _Answer.of(request, admission.admitted, admission.controller_throttle_ms)
    answer = _Answer.of(request, [True] * len(request.topics), 0) if resolution.shadow else verdict
    return Decision(  # positional: with thirty keyword arguments msgspec takes longer than the rest of a decision
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
        admission.burst,
        quota.max_debt_ms if quota else None,
        resolution.entity,
        resolution.exempt,
        answer.outcome,
        [
            _topic(topic, limit, admitted=admitted)
            for topic, admitted in zip(request.topics, answer.admitted, strict=True)
        ],
        answer.controller_throttle_ms,
        request.request_throttle_ms,
        answer.throttle_time_ms,
        record.timestamp + answer.throttle_time_ms,
        verdict.as_shadow(request.topics, limit) if resolution.shadow else None,
        admission.tokens_before,
        admission.tokens,
        record.timestamp,
        record.source,
        request.apply,
        request.expires_at,
        admission.repeats,
        request.observed,
        admission.bucket_before,
        admission.withdraws or (Withdrawal() if request.withdraws else None),
        quota.max_request_mutations if quota else None,
        request.unrecorded,
    )


class _Answer(msgspec.Struct, frozen=True):
    """The answer that a client gets, or would have got from a quota in shadow."""

    outcome: Outcome
    admitted: Sequence[bool]
    controller_throttle_ms: int
    throttle_time_ms: int

    @classmethod
    def of(cls, request: MutationRequest, admitted: Sequence[bool], controller_throttle_ms: int) -> Self:
        throttle = told_throttle_ms(request, controller_throttle_ms)
        return cls(Outcome.of(admitted), admitted, controller_throttle_ms, throttle)

    def as_shadow(self, topics: Sequence[TopicMutation], limit: float) -> Shadow:
        answers = zip(topics, self.admitted, strict=True)
        codes = [_error(topic, limit, admitted=admitted)[0] for topic, admitted in answers]
        return Shadow(self.outcome, codes, self.controller_throttle_ms, self.throttle_time_ms)


def exceeding_message(topic: TopicMutation, limit: float) -> str:
    """Return the message of a topic whose cost exceeds the limit of the quota."""
    return (
        f"The topic costs {plural(topic.partitions, 'mutation')}, and one topic may cost at most {limit:,} "
        f"({LIMIT_CONFIG}); waiting does not help."
    )


def _error(topic: TopicMutation, limit: float, *, admitted: bool) -> tuple[int, str, str | None, Reason | None]:
    if admitted:
        return _ADMITTED
    if topic.partitions <= limit:
        return _REJECTED
    error, reason = ErrorCode.POLICY_VIOLATION, Reason.EXCEEDS_LIMIT
    return error.value, error.name, exceeding_message(topic, limit), reason


def _topic(topic: TopicMutation, limit: float, *, admitted: bool) -> TopicDecision:
    return TopicDecision(
        topic.name,
        topic.partitions,
        *_error(topic, limit, admitted=admitted),
        count=topic.count,
        replication_factor=topic.replication_factor,
        assignments=topic.assignments,
        configs=topic.configs,
    )
