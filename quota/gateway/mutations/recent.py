"""The topics that clients have changed through the gateway lately.

A broker's metadata lags behind the controller, by milliseconds when it is quiet and by seconds in a storm. Without this
memory, topics would be deleted for free as long as the brokers do not know them, or for the cost of earlier topics.
"""

from collections import OrderedDict
from dataclasses import dataclass

_REMEMBERED_MS = 60_000
_MAX_TOPICS = 100_000

NO_ID = bytes(16)
"""The topic id that means none (Kafka's zero UUID)."""


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic of the cluster."""

    name: str
    topic_id: bytes
    """`NO_ID` if it is unknown."""
    partitions: int
    may_delete: bool = True
    """Whether the client may delete it, as far as is known."""


class RecentTopics:
    """The latest known state of the topics that were changed in the last minute, and the ids of those deleted in it.

    Times are ms of one monotonic clock.
    """

    def __init__(self) -> None:
        self._changes: OrderedDict[str, tuple[ExistingTopic, int]] = OrderedDict()  # by name, the oldest first
        self._names: dict[bytes, str] = {}
        self._gone: OrderedDict[bytes, int] = OrderedDict()  # ids, the oldest first

    def record(self, topic: ExistingTopic, now: int) -> None:
        """Record the state of a topic since `now`; an earlier topic of its name, with another id, is gone."""
        known = self._changes.get(topic.name)
        if known is not None and known[0].topic_id != topic.topic_id:
            self._record_gone(known[0].topic_id, now)
        self._forget(topic.name)
        self._changes[topic.name] = topic, now
        if topic.topic_id != NO_ID:
            self._names[topic.topic_id] = topic.name
        while len(self._changes) > _MAX_TOPICS or now - next(iter(self._changes.values()))[1] > _REMEMBERED_MS:
            self._forget(next(iter(self._changes)))

    def record_deletion(self, topic: ExistingTopic, now: int) -> None:
        """Record that a topic, which may have been recorded before, is gone."""
        known = self._changes.get(topic.name)
        if known is not None and (topic.topic_id in {NO_ID, known[0].topic_id} or known[0].topic_id == NO_ID):
            self._record_gone(known[0].topic_id, now)
            self._forget(topic.name)
        self._record_gone(topic.topic_id, now)

    def find(self, name: str | None, topic_id: bytes, now: int) -> ExistingTopic | None:
        """Return a topic by its name or, without one, by its id; None if it was not changed lately."""
        known = self._changes.get(self._names.get(topic_id, "") if name is None else name)
        return known[0] if known is not None and now - known[1] <= _REMEMBERED_MS else None

    def is_changed(self, name: str, since: int) -> bool:
        """Return whether a topic was created or has grown since a time."""
        known = self._changes.get(name)
        return known is not None and known[1] >= since

    def is_gone(self, topic_id: bytes, now: int) -> bool:
        """Return whether the topic with this id was deleted lately. An id is never used again."""
        deleted_at = self._gone.get(topic_id)
        return deleted_at is not None and now - deleted_at <= _REMEMBERED_MS

    def _forget(self, name: str) -> None:
        known = self._changes.pop(name, None)
        if known is not None:
            self._names.pop(known[0].topic_id, None)

    def _record_gone(self, topic_id: bytes, now: int) -> None:
        if topic_id != NO_ID:
            self._gone.pop(topic_id, None)
            self._gone[topic_id] = now
            while len(self._gone) > _MAX_TOPICS or now - next(iter(self._gone.values())) > _REMEMBERED_MS:
                self._gone.popitem(last=False)
