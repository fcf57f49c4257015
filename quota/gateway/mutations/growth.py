"""CreatePartitions: a topic costs the partitions that are added to those that the cluster has.

A KRaft controller applies its own quota before it places partitions. Without a quota it places all partitions of each
request, also of one that is only validated, and handles nothing else meanwhile. What cannot succeed or would be
rejected is therefore not validated, and each user's growths are validated one at a time.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from quota.errors import ErrorCode
from quota.gateway.context import GatewayContext
from quota.gateway.memory import NO_ID, ExistingTopic, RecentTopics
from quota.gateway.mutations.lookup import (
    describe,
    exists,
    look_up_names,
    query_controller,
    result_if_unknown,
)
from quota.gateway.operations import (
    OUT_OF_TIME,
    RESULTS,
    BrokerCall,
    Charged,
    Check,
    Checked,
    ClientRequest,
    Pause,
    TopicResponse,
    Validated,
    content_digest,
    topic_result,
    validate,
    wait,
)
from quota.records.request import TopicMutation

_MAX_ADDITIONS = 10_000
"""The maximum number of partitions that a request may add. A KRaft controller writes at most as many records for a
request, one for each partition, and fails only after it has placed all of them."""
_RECREATED = "the topic was recreated after its growth was charged, so it was not grown; retry"


def check_growth(request: ClientRequest, context: GatewayContext, clock: Callable[[], int]) -> Check:
    """Look up the present numbers of partitions, and have the cluster validate the topics that can grow.

    A client in debt is rejected whatever the placement of its partitions, so they are not placed.
    """
    topics = request.message["topics"]
    present, failed = yield from _find([topic["name"] for topic in topics], request, context.recent, clock())
    known = [topic for topic in topics if topic["name"] in present]
    additions = {topic["name"]: topic["count"] - present[topic["name"]].partitions for topic in known}
    added = sum(addition for addition in additions.values() if addition > 0)
    if not known or added > _MAX_ADDITIONS:
        excess = f"this request would add {added} partitions, more than the {_MAX_ADDITIONS} that a controller can add"
        return Checked([], failed + _results(known, ErrorCode.INVALID_PARTITIONS, f"{excess} at once"))

    with context.growing.take([request.user], request.ends_at, clock) as ahead:
        yield from wait(ahead, lambda: request.ends_at - clock())
        if clock() >= request.ends_at:
            return Checked([], failed + _results(known, ErrorCode.REQUEST_TIMED_OUT, OUT_OF_TIME))
        in_debt = context.debts.find(request.client, clock()) is not None  # to which others before it may have led
        if request.is_strict and in_debt and not request.only_validates:
            invalid, valid, throttle_ms = yield from _validate_present(request, known, additions)
        else:
            invalid, valid, throttle_ms = yield from validate(request, request.version, known)
    charged, steps = [], []
    for topic in known:
        name, count = topic["name"], topic["count"]
        if name in valid:
            cost = TopicMutation(name, max(additions[name], 0), count=count)
            charged.append(Charged(topic, cost, replace(present[name], partitions=count)))
            steps.append((present[name].topic_id, present[name].partitions, count))
    once = all(topic_id != NO_ID for topic_id, _, _ in steps)
    return Checked(charged, failed + invalid, throttle_ms, once, content_digest(request, steps))


def grow(
    request: ClientRequest, admitted: list[Charged], context: GatewayContext, now: int
) -> Generator[BrokerCall | Pause, Any, dict[str, Any]]:
    """Grow topics that were not recreated since they were charged; return the cluster's response."""
    names = [mutation.topic.name for mutation in admitted]
    present = {topic.name: topic for topic in (yield from describe(context.recent, now, names=names)).topics}
    left, results = [], []
    for mutation in admitted:
        topic_id = present.get(mutation.topic.name, mutation.topic).topic_id
        if NO_ID in {topic_id, mutation.topic.topic_id} or topic_id == mutation.topic.topic_id:
            left.append(mutation)
        else:
            results.append(mutation.rejection(ErrorCode.REQUEST_TIMED_OUT, _RECREATED))
    response: dict[str, Any] = {"throttleTimeMs": 0, RESULTS[request.key]: []}
    if left:
        message = request.reduced([mutation.requested for mutation in left], now)
        response = yield BrokerCall(request.key, request.version, message)
    grown = {result["name"] for result in response[RESULTS[request.key]] if not result["errorCode"]}
    for mutation in left:
        if mutation.topic.name in grown:
            context.recent.record(mutation.topic, now)
    return {**response, RESULTS[request.key]: [*response[RESULTS[request.key]], *results]}


def _results(topics: list[dict[str, Any]], error: ErrorCode, message: str) -> list[TopicResponse]:
    return [topic_result(topic["name"], NO_ID, error, message) for topic in topics]


def _find(
    names: list[str], request: ClientRequest, recent: RecentTopics, now: int
) -> Generator[BrokerCall | Pause, Any, tuple[dict[str, ExistingTopic], list[TopicResponse]]]:
    """Return the topics that exist, by name, and the error results of the others."""
    topics, results = yield from look_up_names(request, recent, now, names)
    present = {topic.name: topic for topic in topics.topics}
    late = [name for name, result in results.items() if exists(result) and name not in present]
    results |= yield from query_controller(late)  # they may have been deleted meanwhile
    return present, [result_if_unknown(result) for name, result in results.items() if name not in present]


def _validate_present(
    request: ClientRequest, topics: list[dict[str, Any]], additions: dict[str, int]
) -> Generator[BrokerCall, dict[str, Any], Validated]:
    """Have the cluster validate what it does before it places partitions.

    A topic that can grow is sent with a count that fails, because it exists.
    """

    def grows(topic: dict[str, Any]) -> bool:
        addition = additions[topic["name"]]
        return addition > 0 and (topic["assignments"] is None or len(topic["assignments"]) == addition)

    sent = [{**topic, "count": 1, "assignments": None} if grows(topic) else topic for topic in topics]
    failed, valid, throttle_ms = yield from validate(request, request.version, sent)
    growing = {topic["name"] for topic in topics if grows(topic)}
    exist = {result["name"]: result for result in failed if result["name"] in growing and exists(result)}
    return [result for result in failed if result["name"] not in exist], {**valid, **exist}, throttle_ms
