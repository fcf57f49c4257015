"""Requests to a cluster, and their answers as a client sees them."""

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
    """None if the request has the id instead."""
    asked: int | None = None
    """Requested number of partitions; None for the cluster's default, and in deletions."""
    assignments: list[list[int]] | None = None
    """The broker ids of each partition; if the topic grows, of each new partition."""
    replication: int | None = 1
    configs: dict[str, str] | None = None
    id: str | None = None
    """The topic id in Kafka's text form."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request."""

    operation: Operation
    topics: tuple[Topic, ...]
    validate_only: bool = False
    by_id: bool = False
    retries: bool = False
    """Whether the client retries what the quota refuses."""
    timeout_ms: int = 30_000
    """Time limit in the request; of the clients, only `FrameClient` sends it."""


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """The outcome of a topic."""

    name: str | None
    error: int
    """Kafka's code; negative ones are librdkafka's own."""
    message: str | None = None
    throttle_ms: int | None = None
    id: str | None = None
    partitions: int | None = None
    """Number of partitions in the answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as the client saw it; times are epoch ms."""

    sent_ms: int
    answered_ms: int
    topics: tuple[TopicAnswer, ...]
    throttle_ms: int | None = None
    api_version: int | None = None
    """None if the client does not report the version that it used."""


class Client(Protocol):
    """A client that sends requests."""

    kind: str
    principal: str
    client_id: str | None

    def ask(self, call: Call) -> Answer:
        """Send a request, and wait for the answer."""
