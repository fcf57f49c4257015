"""The mutations of one client's request, from its arrival to its response.

The cluster validates them first, so that topics that would fail anyway get the cluster's own error and are not charged.
The others are decided, and only admitted topics are forwarded.

A topic is changed by one request at a time. Of ten that create it at once, one is charged; the others wait for it, are
validated again, and get the error of a topic that exists.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

from quota.errors import ErrorCode
from quota.gateway.mutations.creation import check_creation, create
from quota.gateway.mutations.deletion import check_deletion, delete
from quota.gateway.mutations.growth import check_growth, grow
from quota.gateway.mutations.memory import Memory
from quota.gateway.mutations.operations import (
    OUT_OF_TIME,
    RESULTS,
    BrokerCall,
    Charged,
    Check,
    Checked,
    ClientRequest,
    MutationResponse,
    Pause,
)
from quota.gateway.mutations.turns import wait
from quota.records.decision_request import DecisionReply, DecisionRequest
from quota.records.request import NO_CLIENT_ID, OPERATIONS, MutationRequest
from quota.wire.protocol import ApiKey

WhenSilent = Literal["closed", "open"]
"""The behaviour without a decision: `closed` returns an error. `open` proceeds if no request of the gateway has been
decided for the time that a decision may take, and not because a client's own time limit is shorter."""

_SHARE_OF_TIMEOUT = 0.8
"""The share of a client's timeout, and of its session, that a decision may take."""
_SILENT = ("proceeded", "undecided")


Steps = Generator[BrokerCall | Pause | DecisionRequest, Any, MutationResponse]
"""The steps of a mutation: a `BrokerCall` is sent its response message, a `DecisionRequest` its `DecisionReply`, and a
`Pause` None; the return value is the client's response."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that apply to all clients' mutations."""

    when_silent: WhenSilent = "closed"
    decision_timeout_ms: int = 10_000
    """The time that a decision may take [ms], if the client's own time limit is not shorter."""
    default_partitions: int = 1
    """The cost of a topic with the cluster's default number of partitions where the client may not see that number."""
    enforced_by: str = "the cluster"
    """The servers on which the enforcing job should run, for errors."""


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


def mutate(request: ClientRequest, rules: Rules, memory: Memory, clock: Callable[[], int]) -> Steps:
    """Carry out the admitted mutations of a request."""
    arrived_at = clock()
    checked = yield from _check(request, rules, memory, clock)
    if request.only_validates:
        valid = [mutation.rejection(ErrorCode.NONE, None) for mutation in checked.charged]
        message = {"throttleTimeMs": checked.throttle_ms, RESULTS[request.key]: [*valid, *checked.failed]}
        return MutationResponse(message, mute_ms=0, topics={})

    def left_ms() -> int:
        return _limit_ms(request, rules, clock() - arrived_at)

    names, ends_at = [mutation.topic.name for mutation in checked.charged], arrived_at + request.time_limit_ms
    with memory.changing.take(names, ends_at, clock) as ahead:
        waited = yield from wait(ahead, left_ms)
        if waited or any(memory.recent.is_changed(name, arrived_at) for name in names):
            checked = yield from _check(request, rules, memory, clock)
        return (yield from _carry_out(request, checked, rules, memory, clock, arrived_at))


def _carry_out(  # noqa: PLR0913, PLR0917
    request: ClientRequest, checked: Checked, rules: Rules, memory: Memory, clock: Callable[[], int], arrived_at: int
) -> Steps:
    """Have checked mutations decided, and carry out those admitted."""
    outcome = _Outcome(frozenset())
    if clock() - arrived_at >= request.time_limit_ms:
        outcome = _Outcome(frozenset(), 0, ErrorCode.REQUEST_TIMED_OUT, OUT_OF_TIME, _SILENT)
    elif checked.charged:
        outcome = yield from _decide(request, checked, rules, memory, clock, arrived_at)
    admitted = [mutation for index, mutation in enumerate(checked.charged) if index in outcome.admitted]
    others = [mutation for index, mutation in enumerate(checked.charged) if index not in outcome.admitted]
    results, throttle_ms = [], max(checked.throttle_ms, outcome.throttle_ms)
    if admitted:
        response = yield from _forward(request, admitted, clock() - arrived_at, rules, memory, clock())
        results, throttle_ms = response[RESULTS[request.key]], max(throttle_ms, response["throttleTimeMs"])
    rejected = [mutation.rejection(outcome.error, outcome.message) for mutation in others]
    return MutationResponse(
        {"throttleTimeMs": throttle_ms, RESULTS[request.key]: [*results, *checked.failed, *rejected]},
        mute_ms=outcome.throttle_ms,
        topics={
            outcome.counted[0]: len(admitted),
            outcome.counted[1]: len(rejected),
            "failed": len(checked.failed),
        },
    )


def _check(request: ClientRequest, rules: Rules, memory: Memory, clock: Callable[[], int]) -> Check:
    """Find the topics that would succeed, and their costs."""
    match request.key:
        case ApiKey.CREATE_TOPICS:
            return check_creation(request, memory, rules.default_partitions)
        case ApiKey.CREATE_PARTITIONS:
            return check_growth(request, memory, clock)
        case _:
            return check_deletion(request, memory, clock())


def _forward(  # noqa: PLR0913, PLR0917
    request: ClientRequest, admitted: list[Charged], waited_ms: int, rules: Rules, memory: Memory, now: int
) -> Generator[BrokerCall | Pause, Any, dict[str, Any]]:
    """Carry out admitted mutations; return the cluster's response."""
    match request.key:
        case ApiKey.CREATE_TOPICS:
            return (yield from create(request, admitted, waited_ms, memory, rules.default_partitions, now))
        case ApiKey.CREATE_PARTITIONS:
            return (yield from grow(request, admitted, waited_ms, memory, now))
        case _:
            return (yield from delete(request, admitted, waited_ms, memory, now))


def _decide(  # noqa: PLR0913, PLR0917
    request: ClientRequest, checked: Checked, rules: Rules, memory: Memory, clock: Callable[[], int], arrived_at: int
) -> Generator[DecisionRequest, DecisionReply, _Outcome]:
    """Return the outcome.

    A strict client in debt that was decided just now is rejected without another decision.
    """
    now = clock()
    debt = memory.debts.find(request.client, now) if request.is_strict else None
    if debt is not None and debt.is_fresh(now):
        return _rejected(frozenset(), debt.ends_at - now)
    wanted = _decision_request(request, checked, _limit_ms(request, rules, now - arrived_at))
    reply = yield wanted
    if reply.decision is not None:
        memory.debts.record(request.client, reply.throttle_ms, clock())
    return _outcome(reply, wanted, rules)


def _limit_ms(request: ClientRequest, rules: Rules, passed_ms: int) -> int:
    """Return the time that is left for a decision [ms], `passed_ms` after the client's request arrived."""
    return min(rules.decision_timeout_ms, int(request.time_limit_ms * _SHARE_OF_TIMEOUT) - passed_ms)


def _decision_request(request: ClientRequest, checked: Checked, limit_ms: int) -> DecisionRequest:
    """Return the request for a decision."""
    requested = MutationRequest(
        request_id="",
        operation=OPERATIONS[request.key],
        api_version=request.version,
        topics=[mutation.cost for mutation in checked.charged],
        user=request.user,
        client_id=request.client_id or NO_CLIENT_ID,
        apply=False,
    )
    return DecisionRequest(requested, max(limit_ms, 0), checked.content, checked.once)


def _rejected(admitted: frozenset[int], throttle_ms: int) -> _Outcome:
    """Return the outcome of a decision that rejects topics; Kafka's error has no message."""
    return _Outcome(admitted, throttle_ms, ErrorCode.THROTTLING_QUOTA_EXCEEDED)


def _outcome(reply: DecisionReply, wanted: DecisionRequest, rules: Rules) -> _Outcome:
    """Return the outcome of the reply to a request for a decision."""
    decision = reply.decision
    if decision is not None:
        admitted = frozenset(index for index, topic in enumerate(decision.topics) if not topic.error_code)
        return _rejected(admitted, reply.throttle_ms)
    if reply.is_invalid:
        return _Outcome(frozenset(), 0, ErrorCode.INVALID_REQUEST, reply.error, ("admitted", "invalid"))
    is_silent = reply.silent_ms >= rules.decision_timeout_ms
    if is_silent and rules.when_silent == "open":
        return _Outcome(frozenset(range(len(wanted.request.topics))), counted=_SILENT)
    is_running = f"is mutation-quota enforce running on {rules.enforced_by}?"
    if not reply.needs_ms:
        sentence = f"no decision on this mutation in {reply.waited_ms} ms, so nothing was changed; {is_running}"
    elif is_silent:
        sentence = (
            f"no decision on any mutation in {reply.silent_ms} ms, so this one was not requested, and nothing was "
            f"changed; {is_running}"
        )
    else:
        sentence = (
            f"a decision takes at least {reply.needs_ms} ms at present, and the client's timeout leaves "
            f"{wanted.timeout_ms} ms, so it was not requested, and nothing was changed"
        )
    return _Outcome(frozenset(), 0, ErrorCode.REQUEST_TIMED_OUT, sentence, _SILENT)
