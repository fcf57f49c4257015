"""A client's request to change topics, and what the three kinds of such requests have in common."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar

from quota.gateway.limited import OPERATIONS
from quota.gateway.mutations.recent import RecentTopics
from quota.records import codec
from quota.records.request import STRICT_SINCE, TopicMutation
from quota.wire.api_keys import ApiKey

TopicResponse = dict[str, Any]
"""The result of one topic in a response, with Kafka's field names."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's request to create, grow or delete topics."""

    key: ApiKey
    version: int
    client_id: str | None
    user: str
    message: dict[str, Any]
    session_left_ms: int | None = None
    """The time until the broker closes the client's connection unless it authenticates again [ms]."""

    @property
    def is_strict(self) -> bool:
        """Whether the client knows THROTTLING_QUOTA_EXCEEDED."""
        return self.version >= STRICT_SINCE[OPERATIONS[self.key]]


@dataclass(frozen=True, slots=True)
class BrokerCall:
    """A request by the gateway, sent on the client's own connection and therefore with the client's permissions."""

    key: ApiKey
    version: int
    message: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause before the next call to the broker, in ms."""

    ms: int


@dataclass(frozen=True, slots=True)
class MutationResponse:
    """The response to a client, and the outcomes of its topics."""

    message: dict[str, Any]
    mute_ms: int
    """The time for which the channel is to be muted [ms]."""
    topics: Mapping[str, int]
    """The number of topics by outcome: `admitted` or `refused` by a decision, `failed` by the cluster's
    validation, `invalid` by a dead letter, and without a decision `undecided` or, where the gateway fails open,
    `proceeded`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the cluster's validation, before the decision."""

    topics: list[TopicMutation]
    """The topics to decide, with their costs."""
    failed: list[TopicResponse] = field(default_factory=list)
    """The cluster's results of topics that would fail."""
    throttle_ms: int = 0
    once: bool = False
    """Whether `content` can happen only once, such as the deletion of the topic with a given id."""
    content: bytes = b""
    """A digest by which these mutations are recognized in a retry."""


Check = Generator[BrokerCall | Pause, dict[str, Any], Checked]


class MutationOperation(ABC):
    """The mutations of one request."""

    results: ClassVar[str]
    """The response field that holds the results of the topics."""

    def __init__(self, request: ClientRequest, default_partitions: int, recent: RecentTopics, now: int) -> None:
        """Create the operation.

        Args:
            request: the request.
            default_partitions: the cost of a topic with an unknown default number of partitions.
            recent: recent changes by clients.
            now: the time of the request [ms], by the clock of `recent`.
        """
        self._request = request
        self._default_partitions = default_partitions
        self._recent = recent
        self._now = now
        self._topics: list[Any] = []
        """The topics to decide, as in the request, in the order of `Checked.topics`."""

    @abstractmethod
    def check(self) -> Check:
        """Find the topics that would succeed, and their costs."""

    @abstractmethod
    def forward(self, admitted: frozenset[int], waited_ms: int) -> dict[str, Any] | None:
        """Return the request with the admitted topics, or None if there are none.

        Args:
            admitted: their indexes among those checked.
            waited_ms: the part of the client's time limit that has passed [ms].
        """

    @abstractmethod
    def refuse(self, index: int, error: int, message: str | None) -> TopicResponse:
        """Return the result of a checked topic that is not forwarded."""

    @abstractmethod
    def remember(self, results: list[TopicResponse]) -> None:
        """Record the topics that the cluster has changed, according to its results."""

    def _with(self, waited_ms: int, **fields: object) -> dict[str, Any]:
        """Return the request with changed fields and its remaining timeout."""
        timeout_ms = self._request.message["timeoutMs"]
        left = max(timeout_ms - waited_ms, 1) if timeout_ms > 0 else timeout_ms
        return {**self._request.message, "timeoutMs": left, **fields}


class ValidatedOperation(MutationOperation):
    """Mutations that Kafka can validate without carrying them out."""

    def validate(
        self, version: int
    ) -> Generator[BrokerCall, dict[str, Any], tuple[list[TopicResponse], dict[str, TopicResponse], int]]:
        """Return the results of topics that fail, the results of the others by name, and the throttle time [ms]."""
        response = yield BrokerCall(self._request.key, version, {**self._request.message, "validateOnly": True})
        found = response[self.results]
        valid = {each["name"]: each for each in found if not each["errorCode"]}
        return [each for each in found if each["errorCode"]], valid, response["throttleTimeMs"]

    def forward(self, admitted: frozenset[int], waited_ms: int) -> dict[str, Any] | None:
        """Return the request with the admitted topics."""
        topics = [topic for index, topic in enumerate(self._topics) if index in admitted]
        return self._with(waited_ms, topics=topics) if topics else None

    def refuse(self, index: int, error: int, message: str | None) -> TopicResponse:
        """Return the response for a topic by its name."""
        return {"name": self._topics[index]["name"], "errorCode": int(error), "errorMessage": message}


def content_digest(request: ClientRequest, steps: Sequence[object]) -> bytes:
    """Return a digest of mutations, with their sender and the version of the request."""
    content = (request.user, request.client_id, request.key, request.version, steps)
    return blake2b(codec.encode(content), digest_size=16).digest()
