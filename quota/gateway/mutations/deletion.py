"""DeleteTopics, by names or by ids: a topic costs the partitions that it has."""

from collections import Counter
from collections.abc import Generator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from quota.errors import ErrorCode
from quota.gateway.mutations.existing import (
    SHORT_LAG_MS,
    Identity,
    describe,
    find_named,
    lag_ms,
    unresolved,
)
from quota.gateway.mutations.operations import (
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
)
from quota.gateway.mutations.recent import NO_ID, ExistingTopic, RecentTopics
from quota.records.request import TopicMutation

_DELETED_UNCHARGED = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""The controller's errors for a topic that does not exist, or that the client may not alter: its deletion is forwarded
uncharged."""


def check_deletion(request: ClientRequest, recent: RecentTopics, now: int) -> Check:
    """Look up the topics, their partitions, and whether the client may delete them.

    The cluster cannot validate a deletion. Topics that it would refuse, because they do not exist, may not be deleted
    or are named twice, are forwarded uncharged and get the cluster's own error. They are forwarded before the decision
    is awaited, since such a topic could be created in the meantime.
    """
    wanted = [(requested, _identity(requested)) for requested in request.topics]
    known, unknown = yield from _find(request, {identity for _, identity in wanted}, recent, now)
    times = Counter((known[identity].name, identity[0] is None) for _, identity in wanted if identity in known)
    charged, uncharged = [], []
    for requested, identity in wanted:
        if identity in unknown:
            continue
        topic = known.get(identity)
        if topic is not None and _is_deleted(topic.name, times, by_id=identity[0] is None):
            charged.append(Charged(requested, TopicMutation(topic.name, topic.partitions), topic))
        else:
            uncharged.append(requested)
    failed, throttle_ms = list(unknown.values()), 0
    if uncharged:
        response = yield BrokerCall(request.key, request.version, request.reduced(uncharged, 0))
        failed, throttle_ms = [*failed, *response[RESULTS[request.key]]], response["throttleTimeMs"]
    ids = [each.topic.topic_id for each in charged]
    content = content_digest(request, ids if NO_ID not in ids else [each.topic.name for each in charged])
    return Checked(charged, failed, throttle_ms, NO_ID not in ids, content)


def _find(
    request: ClientRequest, wanted: AbstractSet[Identity], recent: RecentTopics, now: int
) -> Generator[BrokerCall | Pause, dict[str, Any], tuple[dict[Identity, ExistingTopic], dict[Identity, TopicResponse]]]:
    """Return the topics that the client may delete, and the error results of those whose cost is not known in time.

    Only topics given by name alone or by id alone are looked up. The controller is queried for names that the
    broker does not know; it does not accept ids.
    """
    names = sorted(name for name, topic_id in wanted if name is not None and topic_id == NO_ID)
    ids = sorted(topic_id for name, topic_id in wanted if name is None and topic_id != NO_ID)
    by_name, results = yield from find_named(recent, now, names, lag_ms(request.message["timeoutMs"]))
    unsure = [
        name for name, response in results.items() if response["errorCode"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]
    by_name += yield from describe(recent, now, names=unsure, wait_ms=SHORT_LAG_MS)
    by_id = yield from describe(recent, now, ids=ids, wait_ms=SHORT_LAG_MS)
    known: dict[Identity, ExistingTopic] = {(each.name, NO_ID): each for each in by_name if each.may_delete}
    known |= {(None, each.topic_id): each for each in by_id if each.may_delete}
    found = {each.name for each in by_name}
    unknown: dict[Identity, TopicResponse] = {
        (name, NO_ID): {**unresolved(response), "topicId": NO_ID}
        for name, response in results.items()
        if name not in found and response["errorCode"] not in _DELETED_UNCHARGED
    }
    return known, unknown


def _is_deleted(name: str, times: Mapping[tuple[str, bool], int], *, by_id: bool) -> bool:
    """Return whether Kafka deletes a topic for one reference to it, by name or by id.

    A name that is given twice is ignored, and a topic that is given both by name and by id is not deleted.
    """
    names, ids = times[name, False], times[name, True]
    return ids == 1 and names != 1 if by_id else names == 1 and ids == 0


def _identity(topic: RequestedTopic) -> Identity:
    return (topic, NO_ID) if isinstance(topic, str) else (topic["name"], topic["topicId"])
