"""The mutations of one client's request, from its arrival to its response.

The cluster validates them first, so that topics that would fail anyway get the cluster's own error and are not charged.
The others are decided, and only admitted topics are forwarded.

A topic is changed by one request at a time. Of ten that create it at once, one is charged; the others wait for it, are
validated again, and get the error of a topic that exists.
"""

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quota.admission.decide import exceeding_message
from quota.errors import ErrorCode
from quota.gateway.context import GatewayContext
from quota.gateway.mutations.creation import check_creation, create
from quota.gateway.mutations.deletion import check_deletion, delete
from quota.gateway.mutations.growth import check_growth, grow
from quota.gateway.operations import (
    OUT_OF_TIME,
    RESULTS,
    BrokerCall,
    Charged,
    Checked,
    ClientRequest,
    MutationResponse,
    Pause,
    TopicResponse,
    wait,
)
from quota.records.decision_request import DecisionReply, DecisionRequest
from quota.records.request import OPERATIONS, MutationRequest
from quota.wire.protocol import ApiKey

_SHARE_OF_TIMEOUT = 0.8
"""The share of a client's timeout, and of its session, that a decision may take."""
_MAX_HOLD_MS = 300_000
"""How long a client in debt is held at most: neither its connection nor that to its broker may be idle too long."""
_SILENT = ("proceeded", "undecided")

_KINDS = {
    ApiKey.CREATE_TOPICS: (check_creation, create),
    ApiKey.CREATE_PARTITIONS: (check_growth, grow),
    ApiKey.DELETE_TOPICS: (check_deletion, delete),
}
"""What has the cluster validate a request, and what carries out its admitted mutations."""


Steps = Generator[BrokerCall | Pause | DecisionRequest, Any, MutationResponse]
"""The steps of a mutation: a `BrokerCall` is sent its response message, a `DecisionRequest` its `DecisionReply`, and a
`Pause` None; the return value is the client's response."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of the requested topics."""

    admitted: frozenset[int]
    """The indexes of the admitted topics."""
    throttle_ms: int = 0
    error: int = 0
    """The error of the others."""
    message: str | None = None
    counted: tuple[str, str] = ("admitted", "rejected")
    """The outcomes by which the admitted topics and the others are counted."""
    exceeding: Mapping[int, str | None] = field(default_factory=dict)
    """The messages of the topics that exceed the limit of the quota, by their indexes."""

    def rejection(self, index: int, mutation: Charged) -> TopicResponse:
        """Return the result of a topic that is not admitted."""
        if index in self.exceeding:
            return mutation.rejection(ErrorCode.POLICY_VIOLATION, self.exceeding[index])
        return mutation.rejection(self.error, self.message)


def mutate(request: ClientRequest, context: GatewayContext, clock: Callable[[], int]) -> Steps:
    """Carry out the admitted mutations of a request."""
    check, _ = _KINDS[request.key]
    if not (request.is_strict or request.only_validates):
        yield from _hold(request, context, clock)
    checked = yield from check(request, context, clock)
    if request.only_validates:
        valid = [mutation.rejection(ErrorCode.NONE, None) for mutation in checked.charged]
        message = {"throttleTimeMs": checked.throttle_ms, RESULTS[request.key]: [*valid, *checked.failed]}
        return MutationResponse(message, mute_ms=0, topics={})

    names = [mutation.topic.name for mutation in checked.charged]
    with context.changing.take(names, request.ends_at, clock) as ahead:
        waited = yield from wait(ahead, lambda: _limit_ms(request, context, clock()))
        if waited or any(context.recent.is_changed(name, request.arrived_at) for name in names):
            checked = yield from check(request, context, clock)
        return (yield from _carry_out(request, checked, context, clock))


def _hold(request: ClientRequest, context: GatewayContext, clock: Callable[[], int]) -> Generator[Pause, None, None]:
    """Hold a permissive request while its bucket is known to be in debt, for at most half of its time.

    It is never rejected, and a mute ends with its connection: a client that makes a new one each time is held by this.
    """
    ends_at = request.arrived_at + min(request.time_limit_ms // 2, _MAX_HOLD_MS)
    while (held_ms := min(context.buckets.debt_ms(request.client, clock()), ends_at - clock())) > 0:
        yield Pause(held_ms, is_hold=True)


def _carry_out(request: ClientRequest, checked: Checked, context: GatewayContext, clock: Callable[[], int]) -> Steps:
    """Have checked mutations decided, and carry out those admitted."""
    outcome = _Outcome(frozenset())
    if clock() >= request.ends_at:
        outcome = _Outcome(frozenset(), 0, ErrorCode.REQUEST_TIMED_OUT, OUT_OF_TIME, _SILENT)
    elif checked.charged:
        outcome = yield from _decide(request, checked, context, clock)
    admitted = [mutation for index, mutation in enumerate(checked.charged) if index in outcome.admitted]
    others = [(index, mutation) for index, mutation in enumerate(checked.charged) if index not in outcome.admitted]
    results, throttle_ms = [], max(checked.throttle_ms, outcome.throttle_ms)
    if admitted:
        _, carry_out = _KINDS[request.key]
        response = yield from carry_out(request, admitted, context, clock())
        results, throttle_ms = response[RESULTS[request.key]], max(throttle_ms, response["throttleTimeMs"])
    rejected = [outcome.rejection(index, mutation) for index, mutation in others]
    return MutationResponse(
        {"throttleTimeMs": throttle_ms, RESULTS[request.key]: [*results, *checked.failed, *rejected]},
        mute_ms=outcome.throttle_ms,
        topics={
            outcome.counted[0]: len(admitted),
            outcome.counted[1]: len(rejected),
            "failed": len(checked.failed),
        },
    )


def _decide(
    request: ClientRequest, checked: Checked, context: GatewayContext, clock: Callable[[], int]
) -> Generator[DecisionRequest, DecisionReply, _Outcome]:
    """Return the outcome.

    A strict client in debt that was decided just now is rejected without another decision.
    """
    now = clock()
    debt = context.debts.find(request.client, now) if request.is_strict else None
    if debt is not None and debt.is_fresh(now):
        return _Outcome(frozenset(), debt.ends_at - now, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    requested = MutationRequest(
        request_id="",
        operation=OPERATIONS[request.key],
        api_version=request.version,
        topics=[mutation.cost for mutation in checked.charged],
        user=request.user,
        client_id=request.client[1],
        apply=False,
    )
    limit_ms = max(_limit_ms(request, context, now), 0)
    wanted = DecisionRequest(requested, limit_ms, checked.content, checked.once)
    reply = yield wanted
    if reply.decision is not None:
        context.debts.record(request.client, reply.throttle_ms, clock())
    outcome = _outcome(reply, wanted, context)
    if outcome.admitted and reply.decision is None:
        return _proceed(request, requested, context, clock())
    return outcome


def _proceed(request: ClientRequest, requested: MutationRequest, context: GatewayContext, now: int) -> _Outcome:
    """Let mutations proceed without a decision, as far as the bucket goes that the client's last decision left.

    A client whose bucket is not known is not limited.
    """
    answer = context.buckets.charge(request.client, requested, now)
    answered = [True] * len(requested.topics) if answer is None else answer.admitted
    admitted = frozenset(index for index, admits in enumerate(answered) if admits)
    context.stats.add_uncharged(request.user, sum(requested.topics[index].partitions for index in admitted))
    throttle_ms = 0 if answer is None else answer.controller_throttle_ms
    limit = answer.quota.topic_limit if answer and answer.quota else math.inf
    exceeding = {index: topic for index, topic in enumerate(requested.topics) if topic.partitions > limit}
    messages = {index: exceeding_message(topic, limit) for index, topic in exceeding.items()}
    counted = "proceeded", "rejected"
    return _Outcome(admitted, throttle_ms, ErrorCode.THROTTLING_QUOTA_EXCEEDED, exceeding=messages, counted=counted)


def _limit_ms(request: ClientRequest, context: GatewayContext, now: int) -> int:
    left_ms = int(request.time_limit_ms * _SHARE_OF_TIMEOUT) - (now - request.arrived_at)
    return min(context.decision_timeout_ms, left_ms)


def _outcome(reply: DecisionReply, wanted: DecisionRequest, context: GatewayContext) -> _Outcome:
    decision = reply.decision
    if decision is not None:
        admitted = frozenset(index for index, topic in enumerate(decision.topics) if not topic.error_code)
        messages = {
            index: topic.error_message
            for index, topic in enumerate(decision.topics)
            if topic.error_code == ErrorCode.POLICY_VIOLATION
        }
        return _Outcome(admitted, reply.throttle_ms, ErrorCode.THROTTLING_QUOTA_EXCEEDED, exceeding=messages)
    if reply.is_invalid:
        return _Outcome(frozenset(), 0, ErrorCode.INVALID_REQUEST, reply.error, ("admitted", "invalid"))
    is_silent = reply.job_silent_ms >= context.decision_timeout_ms
    if is_silent and context.when_silent == "open":
        return _Outcome(frozenset(range(len(wanted.request.topics))), counted=_SILENT)
    if reply.error:
        sentence = f"no decision on this mutation, so nothing was changed: {reply.error}"
    elif reply.was_requested:
        sentence = f"no decision on this mutation in {reply.waited_ms} ms, so nothing was changed"
    else:
        left = f"{wanted.timeout_ms} ms are left for a decision"
        sentence = f"this mutation was not requested, and nothing was changed: {left}"
    if is_silent:
        why = reply.cause or f"is mutation-quota enforce running on {context.enforced_by}?"
        sentence += f"; no mutation has been decided for {reply.job_silent_ms} ms, {why}"
    elif not reply.error:
        sentence += f"; decisions take at least {reply.least_decision_ms} ms at present"
    return _Outcome(frozenset(), 0, ErrorCode.REQUEST_TIMED_OUT, sentence, _SILENT)
