"""A client's request to change topics, and what the three kinds of such requests have in common."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from quota.gateway.memory import Client, ExistingTopic, PlacesAhead
from quota.records import codec
from quota.records.reason import Reason
from quota.records.request import NO_CLIENT_ID, OPERATIONS, STRICT_SINCE, TopicMutation
from quota.wire.protocol import ApiKey

RequestedTopic = str | dict[str, Any]
"""A topic in a request, with Kafka's field names; a name alone in early versions of DeleteTopics."""
TopicResponse = dict[str, Any]
"""The result of one topic in a response, with Kafka's field names."""

RESULTS = {ApiKey.CREATE_TOPICS: "topics", ApiKey.CREATE_PARTITIONS: "results", ApiKey.DELETE_TOPICS: "responses"}
"""The response field that holds the results of the topics."""
OUT_OF_TIME = "the time limit of the request was over before it could be decided; nothing was changed, retry"
"""The message of REQUEST_TIMED_OUT for a request whose validation took all of its time."""


_TURN_PAUSES_MS = (10, 500)
"""The pause before a channel looks again whether it is its turn, for each channel before it, and the longest one."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's request to create, grow or delete topics."""

    key: ApiKey
    version: int
    client_id: str | None
    user: str
    message: dict[str, Any]
    arrived_at: int = 0
    """The time of its arrival, by the monotonic clock of the gateway [ms]."""
    session_left_ms: int | None = None
    """The time until the broker closes the client's connection unless it authenticates again [ms]."""

    @property
    def topics(self) -> list[RequestedTopic]:
        """The topics of the request."""
        topics: list[RequestedTopic] = self.message[self._topics_field]
        return topics

    def reduced(self, topics: Iterable[RequestedTopic], now: int) -> dict[str, Any]:
        """Return the request for some of its topics, as it is forwarded at `now`."""
        return {**self.message, "timeoutMs": self.left_ms(now), self._topics_field: list(topics)}

    def left_ms(self, now: int) -> int:
        """Return what is left of the client's timeout [ms]; one without a sense is passed on."""
        timeout_ms: int = self.message["timeoutMs"]
        return max(timeout_ms - (now - self.arrived_at), 1) if timeout_ms > 0 else timeout_ms

    @property
    def time_limit_ms(self) -> int:
        """The time from its arrival to its response [ms]: the client's own limit, at most until its session ends."""
        limits = (self.message["timeoutMs"], self.session_left_ms)
        return min(limit for limit in limits if limit is not None)

    @property
    def ends_at(self) -> int:
        """The time by which it has its response [ms]."""
        return self.arrived_at + self.time_limit_ms

    @property
    def client(self) -> Client:
        """The user and the client-id."""
        return self.user, self.client_id or NO_CLIENT_ID

    @property
    def is_strict(self) -> bool:
        """Whether the client knows the error of a rejection; others are only throttled."""
        return self.version >= STRICT_SINCE[OPERATIONS[self.key]]

    @property
    def only_validates(self) -> bool:
        """Whether the request is only to be validated; a deletion cannot be."""
        return bool(self.message.get("validateOnly"))

    @property
    def _topics_field(self) -> str:
        return "topicNames" if "topicNames" in self.message else "topics"


@dataclass(frozen=True, slots=True)
class BrokerCall:
    """A request by the gateway, sent on the client's own connection and therefore with the client's permissions.

    Its result is the message of the response, or the described topics of Metadata.
    """

    key: ApiKey
    version: int
    message: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause before the next call to the broker, in ms."""

    ms: int
    is_hold: bool = False
    """Whether the client is held back because of its debt, as by a mute."""


UNDECIDED = {Reason.INVALID: "invalid", Reason.NO_DECISION: "undecided", Reason.NO_TIME: "undecided"}
"""The outcomes by which topics are counted that no decision has rejected."""


@dataclass(frozen=True, slots=True)
class MutationResponse:
    """The response to a client, and the outcomes of its topics."""

    message: dict[str, Any]
    mute_ms: int = 0
    """The time for which the channel is to be muted [ms]."""
    topics: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The number of topics by outcome and reason, which is empty unless the gateway rejects them: `admitted` or
    `rejected` by a decision, `failed` by the cluster's validation, `invalid` by a dead letter, and without a decision
    `undecided` or, where the gateway fails open, `proceeded`."""


def topic_result(name: str | None, topic_id: bytes, error: int, message: str | None) -> TopicResponse:
    """Return a result of the gateway's own, as from a broker; a version without ids leaves the id out."""
    return {"name": name, "topicId": topic_id, "errorCode": int(error), "errorMessage": message}


@dataclass(frozen=True, slots=True)
class Charged:
    """A topic to decide."""

    requested: RequestedTopic
    """The topic as it is forwarded: as in the request, but one that is to be deleted by its id."""
    cost: TopicMutation
    topic: ExistingTopic
    """The topic as it will be when it is created or has grown; as it is, if it is to be deleted."""

    def rejection(self, error: int, message: str | None) -> TopicResponse:
        """Return the result of this topic if it is not forwarded."""
        return topic_result(self.topic.name, self.topic.topic_id, error, message)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the cluster's validation, before the decision."""

    charged: list[Charged]
    failed: list[TopicResponse] = field(default_factory=list)
    """The cluster's results of topics that would fail."""
    throttle_ms: int = 0
    once: bool = False
    """Whether `content` can happen only once, such as the deletion of the topic with a given id."""
    content: bytes = b""
    """A digest by which these mutations are recognized in a retry."""


Check = Generator[BrokerCall | Pause, Any, Checked]


Validated = tuple[list[TopicResponse], dict[str, TopicResponse], int]
"""The results of topics that fail, the results of the others by name, and the throttle time [ms]."""


def validate(
    request: ClientRequest, version: int, topics: Sequence[RequestedTopic]
) -> Generator[BrokerCall, dict[str, Any], Validated]:
    """Have the cluster validate topics of a request, which Kafka offers for creations and growths."""
    message = {**request.message, "topics": topics, "validateOnly": True}
    response = yield BrokerCall(request.key, version, message)
    results = response[RESULTS[request.key]]
    valid = {result["name"]: result for result in results if not result["errorCode"]}
    return [result for result in results if result["errorCode"]], valid, response["throttleTimeMs"]


def wait(ahead: PlacesAhead, left_ms: Callable[[], int]) -> Generator[Pause, None, bool]:
    """Wait for a turn while there is time left [ms]; return whether another one was before it."""
    pause, longest = _TURN_PAUSES_MS
    waited = False
    while (others := ahead()) > 0 and (left := left_ms()) > 0:
        waited = True
        yield Pause(min(others * pause, longest, left))
    return waited


def content_digest(request: ClientRequest, steps: Sequence[object]) -> bytes:
    """Return a digest of mutations, with their sender and the version of the request."""
    content = (request.user, request.client_id, request.key, request.version, steps)
    return blake2b(codec.encode(content), digest_size=16).digest()
