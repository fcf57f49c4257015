"""The mutations of one client's request, from its arrival to its response.

The cluster validates them first, so that topics that would fail anyway get the cluster's own error and are not charged.
The others are decided, and only admitted topics are forwarded.

A topic is changed by one request at a time. Of ten that create it at once, one is charged; the others wait for it, are
validated again, and get the error of a topic that exists.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quota.admission.decide import exceeding_message
from quota.errors import ErrorCode
from quota.explanation.shortfall import Shortfall, client_message
from quota.gateway.context import GatewayContext
from quota.gateway.mutations.creation import check_creation, create
from quota.gateway.mutations.deletion import check_deletion, delete
from quota.gateway.mutations.growth import check_growth, grow
from quota.gateway.operations import (
    OUT_OF_TIME,
    RESULTS,
    UNDECIDED,
    BrokerCall,
    Checked,
    ClientRequest,
    MutationResponse,
    Pause,
    wait,
)
from quota.records.decision_request import DecisionReply, DecisionRequest
from quota.records.reason import Reason
from quota.records.request import OPERATIONS, MutationRequest, TopicMutation
from quota.wire.protocol import ApiKey

_SHARE_OF_TIMEOUT = 0.8
"""The share of a client's timeout, and of its session, that a decision may take."""
_MAX_HOLD_MS = 300_000
"""How long a client in debt is held at most: neither its connection nor that to its broker may be idle too long."""

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
class _Rejection:
    """Why a topic is rejected, and what its client is told."""

    reason: Reason
    message: str | None = None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of the requested topics."""

    rejections: Sequence[_Rejection | None]
    """Of each topic; None if it is admitted."""
    throttle_ms: int = 0
    is_recorded: bool = False
    """Whether there is a record of it: a decision or a dead letter."""

    def counts(self, failed: int) -> Mapping[tuple[str, str], int]:
        """Return the number of topics by outcome and reason, with those that have `failed` before."""
        admitted = ("admitted" if self.is_recorded else "proceeded"), ""
        names = [
            admitted if rejection is None else (UNDECIDED.get(rejection.reason, "rejected"), rejection.reason.value)
            for rejection in self.rejections
        ]
        return Counter({("failed", ""): failed}) + Counter(names)


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
    outcome = _Outcome([])
    if clock() >= request.ends_at:
        outcome = _Outcome([_Rejection(Reason.NO_TIME, OUT_OF_TIME)] * len(checked.charged))
    elif checked.charged:
        outcome = yield from _decide(request, checked, context, clock)
    answered = list(zip(checked.charged, outcome.rejections, strict=True))
    admitted = [mutation for mutation, rejection in answered if rejection is None]
    rejected = [(mutation, rejection) for mutation, rejection in answered if rejection is not None]
    results, throttle_ms = [], max(checked.throttle_ms, outcome.throttle_ms)
    if admitted:
        _, carry_out = _KINDS[request.key]
        response = yield from carry_out(request, admitted, context, clock())
        results, throttle_ms = response[RESULTS[request.key]], max(throttle_ms, response["throttleTimeMs"])
    if not outcome.is_recorded:
        context.stats.add_unrecorded(request.user, Counter(rejection.reason for _, rejection in rejected))
    unchanged = [mutation.rejection(why.reason.code, why.message) for mutation, why in rejected]
    return MutationResponse(
        {"throttleTimeMs": throttle_ms, RESULTS[request.key]: [*results, *checked.failed, *unchanged]},
        mute_ms=outcome.throttle_ms,
        topics=outcome.counts(len(checked.failed)),
    )


def _decide(
    request: ClientRequest, checked: Checked, context: GatewayContext, clock: Callable[[], int]
) -> Generator[DecisionRequest, DecisionReply, _Outcome]:
    """Return the outcome.

    A strict client in debt that was decided just now is rejected without another decision, but for topics that exceed
    the limit: alone, they throttle nobody.
    """
    now, limit = clock(), context.buckets.topic_limit(request.client)
    debt = context.debts.find(request.client, now) if request.is_strict else None
    rejected = [_rejection(mutation.cost, limit) for mutation in checked.charged]
    if debt is not None and debt.is_fresh(now) and any(each.reason is Reason.EXHAUSTED for each in rejected):
        context.debts.add_unrecorded(request.client, len(checked.charged))
        return _by_quota(rejected, debt.ends_at - now, debt.shortfall, context)
    requested = MutationRequest(
        request_id="",
        operation=OPERATIONS[request.key],
        api_version=request.version,
        topics=[mutation.cost for mutation in checked.charged],
        user=request.user,
        client_id=request.client[1],
        apply=False,
        unrecorded=context.debts.take_unrecorded(request.client),
    )
    limit_ms = max(_limit_ms(request, context, now), 0)
    reply = yield DecisionRequest(requested, limit_ms, checked.content, checked.once)
    if reply.decision is not None:
        shortfall = Shortfall.of(reply.decision)
        context.debts.record(request.client, reply.throttle_ms, clock(), shortfall)
        rejections = [
            _Rejection(topic.reason or Reason.EXHAUSTED, topic.error_message) if topic.error_code else None
            for topic in reply.decision.topics
        ]
        return replace(_by_quota(rejections, reply.throttle_ms, shortfall, context), is_recorded=True)
    if not reply.was_requested:
        context.debts.add_unrecorded(request.client, requested.unrecorded)
    is_silent = reply.job_silent_ms >= context.decision_timeout_ms
    if is_silent and context.when_silent == "open" and not reply.is_invalid:
        return _proceed(request, requested, context, clock())
    rejection = _undecided(reply, limit_ms, context, is_silent=is_silent)
    return _Outcome([rejection] * len(requested.topics), is_recorded=reply.is_invalid)


def _by_quota(
    rejections: Sequence[_Rejection | None], throttle_ms: int, shortfall: Shortfall | None, context: GatewayContext
) -> _Outcome:
    """Return the outcome of topics of which a quota rejects some; where it is exhausted, clients are told by how much.

    Their messages are as the setting `quota.rejection_message` says.
    """
    exhausted = shortfall.sentence(throttle_ms) if shortfall else None

    def told(rejection: _Rejection) -> _Rejection:
        sentence = exhausted if rejection.reason is Reason.EXHAUSTED else rejection.message
        return _Rejection(rejection.reason, client_message(context.rejection_message, sentence))

    return _Outcome([each and told(each) for each in rejections], throttle_ms)


def _proceed(request: ClientRequest, requested: MutationRequest, context: GatewayContext, now: int) -> _Outcome:
    """Let mutations proceed without a decision, as far as the bucket goes that the client's last decision left.

    A client whose bucket is not known is not limited.
    """
    topics = requested.topics
    answer = context.buckets.charge(request.client, requested, now)
    admitted = [True] * len(topics) if answer is None else answer.admitted
    charged = [topic.partitions for topic, admits in zip(topics, admitted, strict=True) if admits]
    context.stats.add_uncharged(request.user, sum(charged))
    if answer is None or answer.quota is None or answer.tokens is None:
        return _Outcome([None] * len(topics))
    context.debts.add_unrecorded(request.client, len(topics) - len(charged))
    tags = context.buckets.tags_of(request.client)
    shortfall = Shortfall(request.client, tags, answer.quota.rate, answer.tokens)
    limit = answer.quota.topic_limit
    rejections = [None if admits else _rejection(topic, limit) for topic, admits in zip(topics, admitted, strict=True)]
    return _by_quota(rejections, answer.controller_throttle_ms, shortfall, context)


def _rejection(topic: TopicMutation, limit: float) -> _Rejection:
    if topic.partitions > limit:
        return _Rejection(Reason.EXCEEDS_LIMIT, exceeding_message(topic, limit))
    return _Rejection(Reason.EXHAUSTED)


def _limit_ms(request: ClientRequest, context: GatewayContext, now: int) -> int:
    left_ms = int(request.time_limit_ms * _SHARE_OF_TIMEOUT) - (now - request.arrived_at)
    return min(context.decision_timeout_ms, left_ms)


def _undecided(reply: DecisionReply, limit_ms: int, context: GatewayContext, *, is_silent: bool) -> _Rejection:
    """Return why a request without a decision is rejected; it `is_silent` if nothing has been decided for long."""
    if reply.is_invalid:
        return _Rejection(Reason.INVALID, reply.error)
    if reply.error:
        sentence = f"no decision on this mutation, so nothing was changed: {reply.error}"
    elif reply.was_requested:
        sentence = f"no decision on this mutation in {reply.waited_ms} ms, so nothing was changed"
    else:
        left = f"{limit_ms} ms are left for a decision"
        sentence = f"this mutation was not requested, and nothing was changed: {left}"
    if is_silent:
        why = reply.cause or f"is mutation-quota enforce running on {context.enforced_by}?"
        sentence += f"; no mutation has been decided for {reply.job_silent_ms} ms, {why}"
    elif not reply.error:
        sentence += f"; decisions take at least {reply.least_decision_ms} ms at present"
    in_vain = not (is_silent or reply.error or reply.was_requested)
    return _Rejection(Reason.NO_TIME if in_vain else Reason.NO_DECISION, sentence)
