"""Hand-made requests: they create, grow and delete topics, or ask for metadata."""

from dataclasses import dataclass, replace

from quota.wire.protocol import ApiKey
from tests.support.wire.requests import creation, deletion
from tests.support.wire.requests import metadata as metadata_of
from tests.support.wire_client import Message, WireClient

METADATA, METADATA_VERSION = ApiKey.METADATA, 12
CREATE, GROW, DELETE = ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS
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


def create(name: str, version: int, *topics: Message) -> Request:
    """Return a CreateTopics request."""
    return Request(name, CREATE, version, creation(*topics))


def grow(name: str, version: int, *counts: tuple[str, int]) -> Request:
    """Return a CreatePartitions request, given names and numbers of partitions."""
    topics = [{"name": topic, "count": count, "assignments": None} for topic, count in counts]
    return Request(name, GROW, version, {"topics": topics, "timeoutMs": TIMEOUT_MS, "validateOnly": False})


def delete(name: str, version: int, *topics: str | bytes) -> Request:
    """Return a DeleteTopics request, by names and, in version 6, by ids."""
    by_names = {"topicNames": list(topics), "timeoutMs": TIMEOUT_MS}
    return Request(name, DELETE, version, by_names if version <= _LAST_BY_NAMES else deletion(*topics))


def metadata(name: str, *names: str) -> Request:
    """Return a Metadata request; without names it requests no topic."""
    return Request(name, METADATA, METADATA_VERSION, metadata_of(*names))
