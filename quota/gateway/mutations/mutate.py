"""The mutations of one client's request, from its arrival to its response.

The cluster validates them first, so that topics that would fail anyway get the cluster's own error and are not charged.
The others are decided, and only admitted topics are forwarded, in the version of the client's request.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Literal

from quota.errors import ErrorCode
from quota.gateway.mutations.creation import check_creation
from quota.gateway.mutations.deletion import check_deletion
from quota.gateway.mutations.growth import check_growth
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
    TopicResponse,
)
from quota.gateway.mutations.recent import NO_ID, RecentTopics
from quota.records.decision_request import DecisionReply, DecisionRequest
from quota.records.request import NO_CLIENT_ID, OPERATIONS, MutationRequest
from quota.wire.api_keys import ApiKey

WhenSilent = Literal["closed", "open"]
"""The behaviour without a decision: `closed` returns an error. `open` proceeds if no request of the gateway has been
decided for the time that a decision may take, and not because a client's own time limit is shorter."""

_SHARE_OF_TIMEOUT = 0.8
"""The share of a client's timeout, and of its session, that a decision may take."""
_MIN_WAIT_MS = 100
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
    counted: tuple[str, str] = ("admitted", "refused")
    """The outcomes by which the admitted topics and the others are counted."""


def mutate(request: ClientRequest, rules: Rules, memory: Memory, clock: Callable[[], int]) -> Steps:
    """Carry out the admitted mutations of a request."""
    arrived_at = clock()
    checked = yield from _check(request, rules, memory, clock)
    if request.only_validates:
        valid = [each.refusal(ErrorCode.NONE, None) for each in checked.charged]
        message = {"throttleTimeMs": checked.throttle_ms, RESULTS[request.key]: [*valid, *checked.failed]}
        return MutationResponse(message, mute_ms=0, topics={})
    outcome, waited_ms = _Outcome(frozenset()), 0
    before_ms = clock() - arrived_at
    if before_ms >= request.time_limit_ms:
        outcome = _Outcome(frozenset(), 0, ErrorCode.REQUEST_TIMED_OUT, OUT_OF_TIME, _SILENT)
    elif checked.charged:
        outcome, waited_ms = yield from _decide(request, checked, rules, memory, clock, before_ms)
    admitted = [each for index, each in enumerate(checked.charged) if index in outcome.admitted]
    others = [each for index, each in enumerate(checked.charged) if index not in outcome.admitted]
    results, throttle_ms = [], max(checked.throttle_ms, outcome.throttle_ms)
    if admitted:
        message = request.reduced([each.requested for each in admitted], waited_ms)
        response = yield BrokerCall(request.key, request.version, message)
        results, throttle_ms = response[RESULTS[request.key]], max(throttle_ms, response["throttleTimeMs"])
        _remember(request.key, admitted, results, memory.recent, arrived_at)
    refused = [other.refusal(outcome.error, outcome.message) for other in others]
    return MutationResponse(
        {"throttleTimeMs": throttle_ms, RESULTS[request.key]: [*results, *checked.failed, *refused]},
        mute_ms=outcome.throttle_ms,
        topics={
            outcome.counted[0]: len(admitted),
            outcome.counted[1]: len(refused),
            "failed": len(checked.failed),
        },
    )


def _check(request: ClientRequest, rules: Rules, memory: Memory, clock: Callable[[], int]) -> Check:
    """Find the topics that would succeed, and their costs."""
    match request.key:
        case ApiKey.CREATE_TOPICS:
            return check_creation(request, rules.default_partitions)
        case ApiKey.CREATE_PARTITIONS:
            return check_growth(request, memory, clock)
        case _:
            return check_deletion(request, memory.recent, clock())


def _decide(  # noqa: PLR0913, PLR0917
    request: ClientRequest, checked: Checked, rules: Rules, memory: Memory, clock: Callable[[], int], before_ms: int
) -> Generator[DecisionRequest, DecisionReply, tuple[_Outcome, int]]:
    """Return the outcome, and the time since the request arrived [ms].

    A strict client in debt that was decided just now is refused without another decision.
    """
    now = clock()
    debt = memory.debts.find(request.client, now) if request.is_strict else None
    if debt is not None and debt.is_fresh(now):
        return _refused(frozenset(), debt.ends_at - now), before_ms
    reply = yield _decision_request(request, checked, rules, before_ms)
    if reply.decision is not None:
        memory.debts.record(request.client, reply.throttle_ms, clock())
    return _outcome(reply, len(checked.charged), rules), before_ms + reply.waited_ms


def _remember(
    key: ApiKey, forwarded: list[Charged], results: list[TopicResponse], recent: RecentTopics, now: int
) -> None:
    """Record the topics that the cluster has changed, according to its results."""
    changed = [result for result in results if not result["errorCode"]]
    by_name = {result["name"]: result for result in changed}
    ids = {result.get("topicId", NO_ID) for result in changed} - {NO_ID}
    for topic in (each.topic for each in forwarded):
        if key == ApiKey.DELETE_TOPICS:
            if topic.name in by_name or topic.topic_id in ids:
                recent.forget(topic.name)
        elif topic.name in by_name:  # the id of a topic just created is in its result
            recent.record(replace(topic, topic_id=by_name[topic.name].get("topicId", topic.topic_id)), now)


def _decision_request(request: ClientRequest, checked: Checked, rules: Rules, before_ms: int) -> DecisionRequest:
    """Return the request for a decision, `before_ms` after the client's request arrived."""
    requested = MutationRequest(
        request_id="",
        operation=OPERATIONS[request.key],
        api_version=request.version,
        topics=[each.cost for each in checked.charged],
        user=request.user,
        client_id=request.client_id or NO_CLIENT_ID,
        apply=False,
    )
    limit = min(rules.decision_timeout_ms, int(request.time_limit_ms * _SHARE_OF_TIMEOUT) - before_ms)
    return DecisionRequest(requested, max(limit, _MIN_WAIT_MS), checked.content, checked.once)


def _refused(admitted: frozenset[int], throttle_ms: int) -> _Outcome:
    """Return the outcome of a decision that refuses topics; Kafka's error has no message."""
    return _Outcome(admitted, throttle_ms, ErrorCode.THROTTLING_QUOTA_EXCEEDED)


def _outcome(reply: DecisionReply, topics: int, rules: Rules) -> _Outcome:
    """Return the outcome of a number of topics."""
    decision = reply.decision
    if decision is not None:
        admitted = frozenset(index for index, topic in enumerate(decision.topics) if not topic.error_code)
        return _refused(admitted, reply.throttle_ms)
    if reply.is_invalid:
        return _Outcome(frozenset(), 0, ErrorCode.INVALID_REQUEST, reply.error, ("admitted", "invalid"))
    if rules.when_silent == "open" and reply.silent_ms >= rules.decision_timeout_ms:
        return _Outcome(frozenset(range(topics)), counted=_SILENT)
    sentence = (
        f"no decision on this mutation in {reply.waited_ms} ms, so nothing was changed; "
        f"is mutation-quota enforce running on {rules.enforced_by}?"
    )
    return _Outcome(frozenset(), 0, ErrorCode.REQUEST_TIMED_OUT, sentence, _SILENT)
