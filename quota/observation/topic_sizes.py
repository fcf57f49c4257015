"""The partitions of topics as known from a log, which determine the costs of mutations."""

from collections.abc import Mapping

from quota.errors import ErrorCode
from quota.observation.request_log import LoggedRequest, LoggedTopic
from quota.records.request import Operation

_IDS_SINCE = 7
"""The first version of CREATE_TOPICS whose response has the ids of topics."""


def is_done(request: LoggedRequest, topic: LoggedTopic) -> bool:
    """Return whether a mutation was, or after a timeout may still be, carried out.

    With ZooKeeper it continues, and the response to a creation has the topic's id; a KRaft controller aborts it.
    """
    if topic.error_code == ErrorCode.REQUEST_TIMED_OUT:
        has_ids = request.operation is Operation.CREATE_TOPICS and request.api_version >= _IDS_SINCE
        return topic.topic_id is not None or not has_ids
    return topic.error_code == ErrorCode.NONE


class TopicSizes:
    """The numbers of partitions of topics; requests must be passed in the order of time."""

    def __init__(self, known: Mapping[str, int] | None = None, default_partitions: int | None = None) -> None:
        """Start with the partitions of the topics before the first request; the default is the brokers' if known."""
        self._sizes = dict(known or {})
        self._names: dict[str, str] = {}
        self._default = default_partitions

    def name(self, topic: LoggedTopic) -> str:
        """Return the name of a topic, or its id where the name is not known."""
        return topic.name or self._names.get(topic.topic_id or "") or f"topic-id:{topic.topic_id}"

    def cost(self, request: LoggedRequest, topic: LoggedTopic) -> int | None:
        """Return the cost of a topic of a request [mutations], None if it is unknown.

        A mutation that was carried out is recorded.
        """
        name = self.name(topic)
        done = is_done(request, topic) and not request.validate_only
        match request.operation:
            case Operation.CREATE_TOPICS:
                return self._created(name, topic, done=done)
            case Operation.CREATE_PARTITIONS:
                before = self._sizes.get(name)
                if done:
                    self._sizes[name] = topic.count
                # A growth that was done added something: a size of the same count is from a later snapshot.
                is_known = before is not None and (before < topic.count or not done)
                return max(topic.count - (before or 0), 0) if is_known else topic.assigned or None
            case Operation.DELETE_TOPICS:
                if done:
                    self._names.pop(topic.topic_id or "", None)
                return self._sizes.pop(name, None) if done else self._sizes.get(name)

    def _created(self, name: str, topic: LoggedTopic, *, done: bool) -> int | None:
        counts = (topic.partitions, topic.count, topic.assigned)
        size = next((count for count in counts if count > 0), self._default)
        if done:
            if topic.topic_id:
                self._names[topic.topic_id] = name
            if size is not None:
                self._sizes[name] = size
            else:
                self._sizes.pop(name, None)
        return size
