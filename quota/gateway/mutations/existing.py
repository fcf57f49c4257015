"""The topics that exist, as the client may see them."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from quota.gateway.mutations.operations import Answer, Call, Pause
from quota.gateway.mutations.recent import NO_ID, ExistingTopic, RecentTopics
from quota.wire.api_keys import ApiKey, ErrorCode

Identity = tuple[str | None, bytes]
"""A topic's name, or its id; the other one is None or `NO_ID`."""

METADATA_VERSION = 12
"""The version of Metadata that the gateway asks in: the first that finds topics by their ids."""
_CREATE_PARTITIONS_VERSION = 3
_DELETE_BIT = 1 << 6
"""`AclOperation.DELETE` among the authorized operations of Metadata."""
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_TOPICS_A_CALL = 50
"""Reading an answer about many partitions must not keep other clients waiting."""
_PAUSES_MS = (10, 640)
"""The first pause before a broker is asked again, and the longest one; each is twice as long as the one before."""

_LAG_MS = 5000
"""A broker learns of a new topic some ms after the controller has created it; some seconds later if it is busy."""
SHORT_LAG_MS = 600
"""The same for topics that may not exist; the client's error for a missing topic is delayed by this time."""

_ASK_TIMEOUT_MS = 5000
"""The controller's time limit for an answer."""


def describe(
    recent: RecentTopics, now: int, *, names: Sequence[str] = (), ids: Sequence[bytes] = (), wait_ms: int = 0
) -> Generator[Call | Pause, dict[str, Any], list[ExistingTopic]]:
    """Return the topics that exist and may be seen.

    Args:
        recent: what clients have changed lately, which the broker may not know yet.
        now: the present time, as in `recent`.
        names: the names to find.
        ids: the ids to find.
        wait_ms: for how long the broker is asked again for topics that it does not know, without the time that the
            answers take.
    """
    asked: list[Identity] = [(name, NO_ID) for name in names]
    asked += [(None, topic_id) for topic_id in ids]
    found: list[ExistingTopic] = []
    calls = -(-len(asked) // _TOPICS_A_CALL)
    for pause_ms in _pauses(wait_ms, calls):
        if not asked:
            break
        missing: list[Identity] = []
        for start in range(0, len(asked), _TOPICS_A_CALL):
            missing += yield from _ask_broker(asked[start : start + _TOPICS_A_CALL], recent, now, found)
        remembered = {each: topic for each in missing if (topic := recent.find(each[0], each[1], now)) is not None}
        found += remembered.values()
        asked = [each for each in missing if each not in remembered]
        if asked and pause_ms:
            yield Pause(pause_ms)
    return found


def _ask_broker(
    asked: Sequence[Identity], recent: RecentTopics, now: int, found: list[ExistingTopic]
) -> Generator[Call, dict[str, Any], list[Identity]]:
    """Add the topics that the broker knows to `found`; return those that it does not know."""
    topics = [{"name": name, "topicId": topic_id} for name, topic_id in asked]
    message = {"topics": topics, "allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": True}
    answer = yield Call(ApiKey.METADATA, METADATA_VERSION, message)
    found += [
        _corrected(each, recent.find(each["name"], NO_ID, now))
        for each in answer["topics"]
        if not each["errorCode"] and each["name"] is not None
    ]
    unknown = {(each["name"], each["topicId"]) for each in answer["topics"] if each["errorCode"] in _UNKNOWN}
    return [each for each in asked if each in unknown]


def ask_controller(names: Sequence[str]) -> Generator[Call, dict[str, Any], dict[str, Answer]]:
    """Return what the controller answers for each topic when it is asked whether that could grow to one partition.

    The controller knows its topics, where a broker's metadata lags. A topic that exists cannot (`is_there`); the
    question is only validated, in any case.
    """
    if not names:
        return {}
    topics = [{"name": name, "count": 1, "assignments": None} for name in names]
    message = {"topics": topics, "timeoutMs": _ASK_TIMEOUT_MS, "validateOnly": True}
    answer = yield Call(ApiKey.CREATE_PARTITIONS, _CREATE_PARTITIONS_VERSION, message)
    answers = {each["name"]: each for each in answer["results"]}
    return {name: answers.get(name) or _not_known_yet(name) for name in names}


def is_there(told: Answer) -> bool:
    """Return whether a topic exists by the controller's answer."""
    return bool(told["errorCode"] == ErrorCode.INVALID_PARTITIONS)


def unresolved(told: Answer) -> Answer:
    """Return the client's answer for a topic that the broker has not come to know, by the controller's answer."""
    return _not_known_yet(told["name"]) if is_there(told) else told


def _not_known_yet(name: str) -> Answer:
    sentence = "the broker does not know the topic yet, so that the cost is not known; nothing was changed"
    return {"name": name, "errorCode": int(ErrorCode.REQUEST_TIMED_OUT), "errorMessage": sentence}


def lag_ms(timeout_ms: int) -> int:
    """Return for how long to ask a broker for topics that the controller knows, by the request's time limit [ms]."""
    return min(_LAG_MS, timeout_ms // 2)


def _pauses(wait_ms: int, calls: int) -> Iterator[int]:
    """Yield pauses [ms] that come to `wait_ms`, and 0; they are longer where asking again takes many calls."""
    pause, longest = (each * calls for each in _PAUSES_MS)
    while wait_ms > 0:
        yield min(pause, wait_ms)
        wait_ms -= pause
        pause = min(2 * pause, longest)
    yield 0


def _corrected(told: dict[str, Any], changed: ExistingTopic | None) -> ExistingTopic:
    """Return a topic of the broker's answer, with the partitions of a growth that the broker does not know yet."""
    may_delete = bool(told["topicAuthorizedOperations"] & _DELETE_BIT)
    topic = ExistingTopic(told["name"], told["topicId"], len(told["partitions"]), may_delete)
    if changed is None or changed.topic_id not in {NO_ID, topic.topic_id}:
        return topic
    return replace(topic, partitions=max(topic.partitions, changed.partitions))
