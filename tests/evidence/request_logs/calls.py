"""What is asked of a cluster, and what a client saw of the answer."""

import enum
from dataclasses import dataclass
from typing import Protocol


class Operation(enum.StrEnum):
    """Requests that change topics, as Kafka names them."""

    CREATE = "CREATE_TOPICS"
    GROW = "CREATE_PARTITIONS"
    DELETE = "DELETE_TOPICS"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a request."""

    name: str | None
    """None where only the id is asked for."""
    asked: int | None = None
    """Number of partitions; None for the cluster's default, or where nothing is counted."""
    assignments: list[list[int]] | None = None
    """The brokers of each partition, of each new one where it grows."""
    replication: int | None = 1
    configs: dict[str, str] | None = None
    id: str | None = None
    """In the form in which Kafka writes ids."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request."""

    operation: Operation
    topics: tuple[Topic, ...]
    validate_only: bool = False
    by_id: bool = False
    retries: bool = False
    """Whether the client asks again when the quota refuses it."""
    timeout_ms: int = 30_000
    """Only frames written by hand differ in it."""


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """What became of a topic."""

    name: str | None
    error: int
    """Kafka's code; negative ones are librdkafka's own."""
    message: str | None = None
    throttle_ms: int | None = None
    id: str | None = None
    partitions: int | None = None
    """As the answer had them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client saw; times are epoch ms."""

    sent_ms: int
    answered_ms: int
    topics: tuple[TopicAnswer, ...]
    throttle_ms: int | None = None
    api_version: int | None = None
    """None where the client does not say which it took."""


class Client(Protocol):
    """A client that can ask."""

    kind: str
    principal: str
    client_id: str | None

    def ask(self, call: Call) -> Answer:
        """Send a request, and wait for the answer."""
