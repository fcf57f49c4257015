"""The lookup of topics: which ones exist, and how many partitions they have, as far as the client may see it."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from quota.errors import ErrorCode
from quota.gateway.memory import NO_ID, ExistingTopic, RecentTopics
from quota.gateway.operations import BrokerCall, ClientRequest, Pause, TopicResponse, topic_result
from quota.wire.described import METADATA_VERSION, DescribedTopic
from quota.wire.protocol import ApiKey

Identity = tuple[str | None, bytes]
"""A topic's name, or its id; the other one is None or `NO_ID`."""

_CREATE_PARTITIONS_VERSION = 3
_DELETE_BIT = 1 << 6
"""`AclOperation.DELETE` among the authorized operations of Metadata."""
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_TOPICS_A_CALL = 50
"""The maximum number of topics in a call: reading a response with many partitions blocks all other clients."""
_NAMES_A_CALL = 1000
"""The maximum number of names in a call to the controller, which rejects more than 10,000 topics."""
_PAUSES_MS = (10, 640)
"""The first pause before a broker is polled again, and the longest one; each is twice as long as the previous one."""

_LAG_MS = 5000
"""How long a broker's metadata may lag behind the controller: some ms normally, some seconds under load."""
_CONTROLLER_TIMEOUT_MS = 5000


class Described(NamedTuple):
    """Topics as a client may see them."""

    topics: list[ExistingTopic]
    hidden: set[Identity]
    """Those that it may not describe, which exist or not."""


def describe(
    recent: RecentTopics, now: int, *, names: Sequence[str] = (), ids: Sequence[bytes] = (), wait_ms: int = 0
) -> Generator[BrokerCall | Pause, Any, Described]:
    """Return the topics that exist and may be seen.

    Topics that the broker does not know are asked for again for `wait_ms`, without the time of the calls. A topic that
    was deleted through this gateway is not known, even if the broker still shows it.
    """
    wanted: list[Identity] = [(name, NO_ID) for name in names]
    wanted += [(None, topic_id) for topic_id in ids]
    described = Described([], set())
    for pause_ms in _pauses(wait_ms, len(list(_calls(wanted)))):
        if not wanted:
            break
        missing: list[Identity] = []
        for call in _calls(wanted):
            missing += yield from _query_broker(call, recent, now, described)
        remembered = {identity: topic for identity in missing if (topic := recent.find(*identity, now)) is not None}
        results = yield from query_controller([topic.name for topic in remembered.values()])
        for wanted_topic, topic in list(remembered.items()):
            if results[topic.name]["errorCode"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted elsewhere
                recent.record_deletion(topic, now)
                del remembered[wanted_topic]
        described.topics.extend(remembered.values())
        wanted = [identity for identity in missing if identity not in remembered]
        if wanted and pause_ms:
            yield Pause(pause_ms)
    return described


def look_up_names(
    request: ClientRequest, recent: RecentTopics, now: int, names: Sequence[str]
) -> Generator[BrokerCall | Pause, Any, tuple[Described, dict[str, TopicResponse]]]:
    """Return the topics that exist, and the controller's result for each name that the broker did not know at first.

    A name that the controller knows is waited for, as long as a broker's metadata may lag behind, and at most for half
    the request's time that is left. A name that is given twice is sent to it twice.
    """
    described = yield from describe(recent, now, names=list(dict.fromkeys(names)))
    known = {topic.name for topic in described.topics}
    results = yield from query_controller([name for name in names if name not in known])
    late = [name for name, result in results.items() if exists(result)]
    lag_ms = min(_LAG_MS, (request.ends_at - now) // 2)
    later = yield from describe(recent, now, names=late, wait_ms=lag_ms)
    return Described(described.topics + later.topics, described.hidden | later.hidden), results


def _query_broker(
    wanted: Sequence[Identity], recent: RecentTopics, now: int, described: Described
) -> Generator[BrokerCall, list[DescribedTopic], list[Identity]]:
    """Add the topics that the broker knows to `described`; return those that it does not know."""
    topics = [{"name": name, "topicId": topic_id} for name, topic_id in wanted]
    message = {"topics": topics, "allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": True}
    response = yield BrokerCall(ApiKey.METADATA, METADATA_VERSION, message)
    missing: set[Identity] = set()
    for topic in response:
        identities: set[Identity] = {(topic.name, NO_ID), (None, topic.topic_id)}
        if topic.error_code in _UNKNOWN or recent.is_gone(topic.topic_id, now):
            missing |= identities
        elif not topic.error_code and topic.name is not None:
            described.topics.append(_corrected(topic, topic.name, recent.find(topic.name, NO_ID, now)))
        elif topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            described.hidden.update(identities)
    return [identity for identity in wanted if identity in missing]


def query_controller(names: Sequence[str]) -> Generator[BrokerCall, dict[str, Any], dict[str, TopicResponse]]:
    """Return the controller's result for each topic of a validate-only CreatePartitions request with a count of 1.

    Unlike a broker's metadata, the controller does not lag. It returns INVALID_PARTITIONS for an existing topic
    (`exists`), and changes nothing in any case, since the request is only validated.
    """
    responses: dict[str, TopicResponse] = {}
    for start in range(0, len(names), _NAMES_A_CALL):
        topics = [{"name": name, "count": 1, "assignments": None} for name in names[start : start + _NAMES_A_CALL]]
        message = {"topics": topics, "timeoutMs": _CONTROLLER_TIMEOUT_MS, "validateOnly": True}
        response = yield BrokerCall(ApiKey.CREATE_PARTITIONS, _CREATE_PARTITIONS_VERSION, message)
        responses |= {result["name"]: result for result in response["results"]}
    return {name: responses.get(name) or _not_known_yet(name) for name in names}


def exists(result: TopicResponse) -> bool:
    """Return whether a topic exists, from the controller's result."""
    return bool(result["errorCode"] == ErrorCode.INVALID_PARTITIONS)


def result_if_unknown(result: TopicResponse) -> TopicResponse:
    """Return the result for the client of a topic that the broker still does not know, from the controller's result."""
    return _not_known_yet(result["name"]) if exists(result) else result


def _not_known_yet(name: str) -> TopicResponse:
    sentence = "the broker does not know the topic yet, so its cost is unknown; nothing was changed, retry"
    return topic_result(name, NO_ID, ErrorCode.REQUEST_TIMED_OUT, sentence)


def _calls(wanted: Sequence[Identity]) -> Iterator[Sequence[Identity]]:
    """Yield the topics of each call: either names or ids, since a broker ignores the names in a call with an id."""
    for by_id in (False, True):
        alike = [topic for topic in wanted if (topic[0] is None) == by_id]
        for start in range(0, len(alike), _TOPICS_A_CALL):
            yield alike[start : start + _TOPICS_A_CALL]


def _pauses(wait_ms: int, calls: int) -> Iterator[int]:
    """Yield pauses [ms] that add up to `wait_ms`, then 0; they are longer if each poll takes many calls."""
    pause, longest = (pause_ms * calls for pause_ms in _PAUSES_MS)
    while wait_ms > 0:
        yield min(pause, wait_ms)
        wait_ms -= pause
        pause = min(2 * pause, longest)
    yield 0


def _corrected(described: DescribedTopic, name: str, changed: ExistingTopic | None) -> ExistingTopic:
    """Return a topic from the broker's response, with partitions that were added but are not in its metadata yet."""
    may_delete = bool(described.authorized_operations & _DELETE_BIT)
    topic = ExistingTopic(name, described.topic_id, described.partitions, may_delete)
    if changed is None or changed.topic_id not in {NO_ID, topic.topic_id}:
        return topic
    return replace(topic, partitions=max(topic.partitions, changed.partitions))
