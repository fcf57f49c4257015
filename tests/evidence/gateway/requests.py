"""Hand-made requests: they create, grow and delete topics, or ask for metadata."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quota.wire.api_keys import ApiKey
from tests.support.wire_client import Message, WireClient

METADATA, METADATA_VERSION = ApiKey.METADATA, 12
CREATE, GROW, DELETE = ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS
NO_ID = bytes(16)
TIMEOUT_MS = 30_000
_LAST_BY_NAMES = 5
"""The last version of DeleteTopics with a list of names alone."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request; its name is that of a step in a case, or of what is measured."""

    name: str
    key: int
    version: int
    message: Message

    def with_fields(self, **fields: object) -> "Request":
        """Return the request with other fields."""
        return replace(self, message=self.message | fields)

    def call(self, client: WireClient) -> Message:
        """Send it, and return the response."""
        return client.call(self.key, self.version, self.message)

    def frame(self, client: WireClient) -> bytes:
        """Return the frame of the request; its response is not decoded."""
        return client.request(self.key, self.version, self.message)


def new_topic(name: str, partitions: int, replicas: int = 1, **more: object) -> Message:
    """Return a topic of CreateTopics."""
    blank = {"name": name, "numPartitions": partitions, "replicationFactor": replicas, "assignments": [], "configs": []}
    return blank | more


def create(name: str, version: int, *topics: Message) -> Request:
    """Return a CreateTopics request."""
    message = {"topics": list(topics), "timeoutMs": TIMEOUT_MS, "validateOnly": False}
    return Request(name, CREATE, version, message)


def grow(name: str, version: int, *counts: tuple[str, int]) -> Request:
    """Return a CreatePartitions request, given names and numbers of partitions."""
    topics = [{"name": topic, "count": count, "assignments": None} for topic, count in counts]
    return Request(name, GROW, version, {"topics": topics, "timeoutMs": TIMEOUT_MS, "validateOnly": False})


def delete(name: str, version: int, *names: str, ids: Sequence[bytes] = ()) -> Request:
    """Return a DeleteTopics request, by names and, in version 6, by ids."""
    if version <= _LAST_BY_NAMES:
        return Request(name, DELETE, version, {"topicNames": list(names), "timeoutMs": TIMEOUT_MS})
    topics = [{"name": topic, "topicId": NO_ID} for topic in names] + [
        {"name": None, "topicId": topic_id} for topic_id in ids
    ]
    return Request(name, DELETE, version, {"topics": topics, "timeoutMs": TIMEOUT_MS})


def metadata(name: str, *names: str, auto_create: bool = False) -> Request:
    """Return a Metadata request; without names it requests no topic."""
    topics = [{"name": topic, "topicId": NO_ID} for topic in names]
    return Request(name, METADATA, METADATA_VERSION, {"topics": topics, "allowAutoTopicCreation": auto_create})
