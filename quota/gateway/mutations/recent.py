"""The topics that clients have changed through the gateway lately.

A broker's metadata lags behind the controller, by milliseconds when it is quiet and by seconds in a storm. Without this
memory, topics would be deleted for free as long as the brokers do not know them.
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
    """The latest known state of the topics that were changed in the last minute.

    Times are ms of one monotonic clock.
    """

    def __init__(self) -> None:
        self._changes: OrderedDict[str, tuple[ExistingTopic, int]] = OrderedDict()  # by name, the oldest first
        self._names: dict[bytes, str] = {}

    def record(self, topic: ExistingTopic, now: int) -> None:
        """Record the state of a topic since `now`."""
        self.forget(topic.name)
        self._changes[topic.name] = topic, now
        if topic.topic_id != NO_ID:
            self._names[topic.topic_id] = topic.name
        while len(self._changes) > _MAX_TOPICS or now - next(iter(self._changes.values()))[1] > _REMEMBERED_MS:
            self.forget(next(iter(self._changes)))

    def forget(self, name: str) -> None:
        """Forget a topic, which was deleted."""
        known = self._changes.pop(name, None)
        if known is not None:
            self._names.pop(known[0].topic_id, None)

    def find(self, name: str | None, topic_id: bytes, now: int) -> ExistingTopic | None:
        """Return a topic by its name or, without one, by its id; None if it was not changed lately."""
        known = self._changes.get(self._names.get(topic_id, "") if name is None else name)
        return known[0] if known is not None and now - known[1] <= _REMEMBERED_MS else None
