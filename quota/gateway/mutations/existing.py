"""The topics that exist, as the client may see them."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from quota.gateway.api_keys import ApiKey, ErrorCode
from quota.gateway.mutations.operations import Call, Pause
from quota.gateway.mutations.recent import NO_ID, ExistingTopic, RecentTopics

METADATA_VERSION = 12
"""The version of Metadata that the gateway asks in: the first that finds topics by their ids."""
_DELETE_BIT = 1 << 6
"""`AclOperation.DELETE` among the authorized operations of Metadata."""
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_MAX_TOPICS = 50
"""The topics of one call: reading an answer about many partitions must not keep other clients waiting."""
_PAUSES_MS = (10, 20, 40, 0)
"""A broker learns of a new topic up to some ten ms after the controller has created it, unless it is busy."""


def describe(
    recent: RecentTopics, now: int, *, names: Sequence[str] = (), ids: Sequence[bytes] = ()
) -> Generator[Call | Pause, dict[str, Any], list[ExistingTopic]]:
    """Return the topics that exist and may be seen.

    Args:
        recent: what clients have changed lately, which the broker may not know yet.
        now: the present time, as in `recent`.
        names: the names to find.
        ids: the ids to find.
    """
    asked: list[tuple[str | None, bytes]] = [(name, NO_ID) for name in names]
    asked += [(None, topic_id) for topic_id in ids]
    found: list[ExistingTopic] = []
    for pause_ms in _PAUSES_MS:
        if not asked:
            break
        missing: list[tuple[str | None, bytes]] = []
        for start in range(0, len(asked), _MAX_TOPICS):
            part = asked[start : start + _MAX_TOPICS]
            topics = [{"name": name, "topicId": topic_id} for name, topic_id in part]
            message = {"topics": topics, "allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": True}
            answer = yield Call(ApiKey.METADATA, METADATA_VERSION, message)
            found += [
                _corrected(each, recent.find(each["name"], NO_ID, now))
                for each in answer["topics"]
                if not each["errorCode"] and each["name"] is not None
            ]
            unknown = {(each["name"], each["topicId"]) for each in answer["topics"] if each["errorCode"] in _UNKNOWN}
            missing += [each for each in part if each in unknown]
        remembered = {each: topic for each in missing if (topic := recent.find(each[0], each[1], now)) is not None}
        found += remembered.values()
        asked = [each for each in missing if each not in remembered]
        if asked and pause_ms:
            yield Pause(pause_ms)
    return found


def _corrected(told: dict[str, Any], changed: ExistingTopic | None) -> ExistingTopic:
    """Return a topic of the broker's answer, with the partitions of a growth that the broker does not know yet."""
    may_delete = bool(told["topicAuthorizedOperations"] & _DELETE_BIT)
    topic = ExistingTopic(told["name"], told["topicId"], len(told["partitions"]), may_delete)
    if changed is None or changed.topic_id not in {NO_ID, topic.topic_id}:
        return topic
    return replace(topic, partitions=max(topic.partitions, changed.partitions))
