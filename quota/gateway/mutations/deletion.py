"""DeleteTopics, by names or by ids: a topic costs the partitions that it has.

The cluster cannot validate a deletion. What it would reject is answered, or forwarded if it is rejected whatever
happens meanwhile: a topic may be created, grow or be recreated at any moment. Topics to be deleted are forwarded by
their ids, so that the topic that was charged is deleted, and no later one of its name.
"""

from collections import Counter
from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from typing import Any

from quota.errors import ErrorCode
from quota.gateway.context import GatewayContext
from quota.gateway.memory import NO_ID, ExistingTopic
from quota.gateway.mutations.lookup import Described, Identity, describe, look_up_names, result_if_unknown
from quota.gateway.operations import (
    RESULTS,
    BrokerCall,
    Charged,
    Check,
    Checked,
    ClientRequest,
    Pause,
    RequestedTopic,
    TopicResponse,
    content_digest,
    topic_result,
)
from quota.records.request import TopicMutation
from quota.wire.protocol import ApiKey

_VERSION = 6
"""The version that deletes topics by their ids."""

_NO_TOPIC = "may this client delete topics?"
"""A name that no topic can have."""
_NO_TOPIC_VERSION = 5
_NO_TOPIC_TIMEOUT_MS = 5000
_FIRST_WITH_DISABLED = 3
"""The first version that knows the error of a switched off deletion; earlier ones get INVALID_REQUEST."""

_LAG_MS = 600
"""How long topics that may not exist are waited for; the client's error for a missing topic is delayed by this time."""

_NOT_THERE = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""The results of a topic that does not exist any longer."""

_NO_NAME_TEXT = "This server does not host this topic-partition."
_NO_ID_TEXT = "This server does not host this topic ID."
_NAMED_BOTH_WAYS = "The provided topic name maps to an ID that was already supplied."
"""Kafka's own texts."""
_HIDDEN_TEXT = (
    "the number of its partitions is not known, because this client may not describe it, so it was not deleted; grant "
    "Describe on the topic"
)


def check_deletion(request: ClientRequest, context: GatewayContext, clock: Callable[[], int]) -> Check:
    """Look up the topics, their partitions, and whether the client may delete them."""
    times = Counter(_identity(requested) for requested in request.topics)
    valid = {
        identity for identity, count in times.items() if count == 1 and (identity[0] is None) != (identity[1] == NO_ID)
    }
    described, results = yield from _find(request, valid, context, clock())
    known: dict[Identity, ExistingTopic] = {(topic.name, NO_ID): topic for topic in described.topics}
    known |= {(None, topic.topic_id): topic for topic in described.topics if topic.topic_id != NO_ID}
    right = yield from _find_right(request, described, context)
    if right == ErrorCode.TOPIC_DELETION_DISABLED:
        error = right if request.version >= _FIRST_WITH_DISABLED else ErrorCode.INVALID_REQUEST
        return Checked([], [topic_result(*identity, error, None) for identity in times])
    may_delete_all = right is not None and right != ErrorCode.TOPIC_AUTHORIZATION_FAILED

    failed, rejected, charged = [], [], []
    both_ways = Counter(known[identity].topic_id for identity in valid if identity in known)
    ids_twice = {topic_id for (name, topic_id), count in times.items() if name is None and count > 1}
    for identity, requested in {_identity(requested): requested for requested in request.topics}.items():
        topic = known.get(identity)
        if identity not in valid or (identity in described.hidden and not may_delete_all):
            rejected += [requested] * times[identity]
        elif identity in described.hidden:
            failed.append(topic_result(*identity, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN_TEXT))
        elif topic is None:
            failed.append(results[identity])
        elif topic.topic_id != NO_ID and (both_ways[topic.topic_id] > 1 or topic.topic_id in ids_twice):
            failed.append(topic_result(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, _NAMED_BOTH_WAYS))
        elif topic.may_delete or may_delete_all:
            forwarded = {"name": topic.name if topic.topic_id == NO_ID else None, "topicId": topic.topic_id}
            charged.append(Charged(forwarded, TopicMutation(topic.name, topic.partitions), topic))
        else:
            rejected.append(requested)
    throttle_ms = 0
    if rejected:
        response = yield BrokerCall(request.key, request.version, request.reduced(rejected, request.arrived_at))
        failed, throttle_ms = [*failed, *response[RESULTS[request.key]]], response["throttleTimeMs"]
    once = all(mutation.topic.topic_id != NO_ID for mutation in charged)
    steps = [
        (mutation.topic.topic_id if once else mutation.topic.name, mutation.topic.partitions) for mutation in charged
    ]
    return Checked(charged, failed, throttle_ms, once, content_digest(request, steps))


def delete(
    request: ClientRequest, admitted: list[Charged], context: GatewayContext, now: int
) -> Generator[BrokerCall | Pause, Any, dict[str, Any]]:
    """Delete topics that have not grown since they were charged; return the cluster's response.

    The results of topics that the client named have their names, and the error of an unknown name.
    """
    ids = [mutation.topic.topic_id for mutation in admitted if mutation.topic.topic_id != NO_ID]
    present = {topic.topic_id: topic for topic in (yield from describe(context.recent, now, ids=ids)).topics}
    left, results = [], []
    for mutation in admitted:
        topic = present.get(mutation.topic.topic_id, mutation.topic)
        if topic.partitions > mutation.topic.partitions:
            grown = f"it has grown to {topic.partitions} partitions since it was charged, so it was not deleted; retry"
            results.append(mutation.rejection(ErrorCode.REQUEST_TIMED_OUT, grown))
        else:
            left.append(mutation)
    response: dict[str, Any] = {"throttleTimeMs": 0, RESULTS[request.key]: []}
    if left:
        message = {"topics": [mutation.requested for mutation in left], "timeoutMs": request.left_ms(now)}
        response = yield BrokerCall(request.key, _VERSION, message)
    by_id = {mutation.topic.topic_id: mutation.topic for mutation in left}
    by_name = {mutation.topic.name: mutation.topic for mutation in left}
    named = {_identity(requested)[0] for requested in request.topics}
    for result in response[RESULTS[request.key]]:
        deleted = by_id.get(result["topicId"]) or by_name.get(result["name"])
        if deleted is None:
            continue
        if result["errorCode"] in _NOT_THERE:
            context.recent.record_deletion(deleted, now)
        if deleted.name in named:
            result["name"] = deleted.name
            if result["errorCode"] == ErrorCode.UNKNOWN_TOPIC_ID:
                gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                result |= {"errorCode": int(gone), "errorMessage": _NO_NAME_TEXT}
        if result["errorCode"] == ErrorCode.TOPIC_DELETION_DISABLED:
            context.deletion_enabled = None
    return {**response, RESULTS[request.key]: [*response[RESULTS[request.key]], *results]}


def _find(
    request: ClientRequest, wanted: AbstractSet[Identity], context: GatewayContext, now: int
) -> Generator[BrokerCall | Pause, Any, tuple[Described, dict[Identity, TopicResponse]]]:
    """Return the topics that the client may see, and the error results of the others.

    The controller is queried for names that the broker does not know; it does not accept ids, and does not answer a
    client that may not alter the topic. These are waited for, in case the broker does not know them yet.
    """
    names = sorted(name for name, _ in wanted if name is not None)
    ids = sorted(topic_id for name, topic_id in wanted if name is None)
    by_name, controllers = yield from look_up_names(request, context.recent, now, names)
    unsure = [
        name
        for name, result in controllers.items()
        if result["errorCode"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED and (name, NO_ID) not in by_name.hidden
    ]
    late = yield from describe(context.recent, now, names=unsure, ids=ids, wait_ms=_LAG_MS)
    results: dict[Identity, TopicResponse] = {
        (name, NO_ID): result_if_unknown(result) for name, result in controllers.items()
    }
    missing = [
        name for name, result in controllers.items() if result["errorCode"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    results |= {
        (name, NO_ID): topic_result(name, NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_NAME_TEXT)
        for name in (*missing, *unsure)
    }
    results |= {
        (None, topic_id): topic_result(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, _NO_ID_TEXT) for topic_id in ids
    }
    return Described(by_name.topics + late.topics, by_name.hidden | late.hidden), results


def _find_right(
    request: ClientRequest, described: Described, context: GatewayContext
) -> Generator[BrokerCall, Any, int | None]:
    """Return the controller's error for a topic that cannot exist, if it tells more than the topics' permissions.

    It is TOPIC_DELETION_DISABLED, TOPIC_AUTHORIZATION_FAILED for a client without a right that covers all topics, or
    another one. A permission on the cluster, which covers all topics, is not among those that Metadata shows. The right
    to describe all topics cannot be told from it.
    """
    topics = described.topics
    if not (topics or described.hidden):
        return None
    if context.deletion_enabled and not described.hidden and all(topic.may_delete for topic in topics):
        return None
    message = {"topicNames": [_NO_TOPIC], "timeoutMs": _NO_TOPIC_TIMEOUT_MS}
    response = yield BrokerCall(ApiKey.DELETE_TOPICS, _NO_TOPIC_VERSION, message)
    error = int(response[RESULTS[request.key]][0]["errorCode"])
    context.deletion_enabled = error != ErrorCode.TOPIC_DELETION_DISABLED
    return error


def _identity(topic: RequestedTopic) -> Identity:
    return (topic, NO_ID) if isinstance(topic, str) else (topic["name"], topic["topicId"])
