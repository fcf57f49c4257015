"""The three kinds of mutations: how the cluster validates them, what they cost, and what goes on."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar

from quota.gateway.api_keys import OPERATIONS, ApiKey, ErrorCode
from quota.records import codec
from quota.records.request import STRICT_SINCE, TopicMutation

Answer = dict[str, Any]
"""The answer for one topic, in Kafka's fields."""

METADATA_VERSION = 12
"""The version of Metadata that the gateway asks in: the first that finds topics by their ids."""

_WITH_DEFAULT_PARTITIONS = 5
"""The first version of CreateTopics whose answer tells the number of partitions."""
_DELETE_BIT = 1 << 6
"""`AclOperation.DELETE` among the authorized operations of Metadata."""
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's request to create, grow or delete topics."""

    key: ApiKey
    version: int
    client_id: str | None
    user: str
    message: dict[str, Any]

    @property
    def is_strict(self) -> bool:
        """Whether the client knows THROTTLING_QUOTA_EXCEEDED."""
        return self.version >= STRICT_SINCE[OPERATIONS[self.key]]


@dataclass(frozen=True, slots=True)
class Call:
    """A request of the gateway's, sent on the client's own connection and so with the client's own rights."""

    key: ApiKey
    version: int
    message: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MutationAnswer:
    """The answer to a client, and what became of its topics."""

    message: dict[str, Any]
    mute_ms: int
    """The time for which the channel is to be muted [ms]."""
    admitted: int = 0
    """The number of topics that went on to the cluster by a decision, or without one (`gateway.when_silent=open`)."""
    refused: int = 0
    failed: int = 0
    """The number of topics that the cluster would have failed, and that were not decided."""
    undecided: int = 0
    """The number of topics that nothing became of because there was no decision in time."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the cluster says before anything is decided."""

    topics: list[TopicMutation]
    """The topics to decide, with their costs."""
    failed: list[Answer] = field(default_factory=list)
    """The cluster's answers for topics that would fail."""
    throttle_ms: int = 0
    once: bool = False
    """Whether `content` can happen only once in the world, as the deletion of a topic with a certain id."""
    content: bytes = b""
    """A digest by which these mutations are recognized when they are asked for again."""


Check = Generator[Call, dict[str, Any], Checked]


class MutationOperation(ABC):
    """The mutations of one request."""

    results: ClassVar[str]
    """The field of the answer that holds the answers for topics."""

    def __init__(self, request: ClientRequest, default_partitions: int) -> None:
        self._request = request
        self._default_partitions = default_partitions
        self._topics: list[Any] = []
        """What is decided, as in the request; in the order of `Checked.topics`."""

    @abstractmethod
    def check(self) -> Check:
        """Find what would succeed, and what it costs."""

    @abstractmethod
    def forward(self, admitted: frozenset[int], waited_ms: int) -> dict[str, Any] | None:
        """Return the request that goes on with the admitted topics, or None if nothing does.

        Args:
            admitted: their indexes among those checked.
            waited_ms: the part of the client's time limit that has passed [ms].
        """

    @abstractmethod
    def refuse(self, index: int, error: int, message: str | None) -> Answer:
        """Return the answer for a checked topic that does not go on."""

    def _with(self, waited_ms: int, **fields: object) -> dict[str, Any]:
        """Return the request with other fields and what remains of its time limit."""
        timeout_ms = self._request.message["timeoutMs"]
        left = max(timeout_ms - waited_ms, 1) if timeout_ms > 0 else timeout_ms
        return {**self._request.message, "timeoutMs": left, **fields}


class _Validated(MutationOperation):
    """Mutations that the cluster validates when it is asked to."""

    def _validate(self, version: int) -> Generator[Call, dict[str, Any], tuple[list[Answer], dict[str, Answer], int]]:
        """Return the answers of topics that fail, those of the others by name, and the throttle time [ms]."""
        answer = yield Call(self._request.key, version, {**self._request.message, "validateOnly": True})
        found = answer[self.results]
        valid = {each["name"]: each for each in found if not each["errorCode"]}
        return [each for each in found if each["errorCode"]], valid, answer["throttleTimeMs"]

    def forward(self, admitted: frozenset[int], waited_ms: int) -> dict[str, Any] | None:
        topics = [topic for index, topic in enumerate(self._topics) if index in admitted]
        return self._with(waited_ms, topics=topics) if topics else None

    def refuse(self, index: int, error: int, message: str | None) -> Answer:
        return {"name": self._topics[index]["name"], "errorCode": int(error), "errorMessage": message}


class Creation(_Validated):
    """CreateTopics: a topic costs its partitions."""

    results = "topics"

    def check(self) -> Check:
        """Ask the cluster to validate; its answer tells the cluster's default number of partitions."""
        topics = self._request.message["topics"]
        by_default = any(each["numPartitions"] < 0 and not each["assignments"] for each in topics)
        version = max(self._request.version, _WITH_DEFAULT_PARTITIONS) if by_default else self._request.version
        failed, valid, throttle_ms = yield from self._validate(version)
        self._topics = [each for each in topics if each["name"] in valid]
        costs = [TopicMutation(each["name"], self._cost(each, valid[each["name"]])) for each in self._topics]
        return Checked(costs, failed, throttle_ms, content=_content(self._request, self._topics))

    def _cost(self, topic: dict[str, Any], validated: Answer) -> int:
        if topic["assignments"]:
            return len(topic["assignments"])
        if topic["numPartitions"] > 0:
            return int(topic["numPartitions"])
        told = validated.get("numPartitions", -1)  # hidden from clients that may not describe the topic's configs
        return int(told) if told > 0 else self._default_partitions


class Growth(_Validated):
    """CreatePartitions: a topic costs the partitions that are added."""

    results = "results"

    def check(self) -> Check:
        """Ask the cluster to validate, and for the present numbers of partitions."""
        failed, valid, throttle_ms = yield from self._validate(self._request.version)
        names = [each["name"] for each in self._request.message["topics"] if each["name"] in valid]
        if not names:
            return Checked([], failed, throttle_ms)
        known = yield from _describe(names=names)
        present = {each["name"]: each for each in known}
        self._topics = [each for each in self._request.message["topics"] if each["name"] in present]
        costs, steps = [], []
        for each in self._topics:
            found = present[each["name"]]
            count = len(found["partitions"])
            costs.append(TopicMutation(each["name"], max(each["count"] - count, 0), count=each["count"]))
            steps.append((found["topicId"], count, each["count"]))
        failed += [_unknown(name) for name in names if name not in present]
        return Checked(costs, failed, throttle_ms, once=True, content=_content(self._request, steps))


class Deletion(MutationOperation):
    """DeleteTopics: a topic costs the partitions that it has.

    The cluster cannot validate a deletion. What it would refuse, because the topic is not there or may not be deleted,
    goes on uncharged, and gets the cluster's own answer.
    """

    results = "responses"

    def __init__(self, request: ClientRequest, default_partitions: int) -> None:
        super().__init__(request, default_partitions)
        self._field = "topicNames" if "topicNames" in request.message else "topics"
        self._uncharged: list[Any] = []

    def check(self) -> Check:
        """Ask for the topics, their partitions, and whether the client may delete them."""
        wanted = [(each, *self._identity(each)) for each in self._request.message[self._field]]
        times = Counter((name, topic_id) for _, name, topic_id in wanted)
        once = [each for each in wanted if times[each[1:]] == 1]
        by_name = yield from _describe(names=[name for _, name, _ in once if name is not None])
        by_id = yield from _describe(ids=[topic_id for _, name, topic_id in once if name is None and any(topic_id)])
        known: dict[Any, Answer] = {each["topicId"]: each for each in by_id if each["authorized"]}
        known |= {each["name"]: each for each in by_name if each["authorized"]}
        costs, ids = [], []
        for each, name, topic_id in wanted:
            found = known.get(name if name is not None else topic_id)
            if found is None or times[name, topic_id] > 1 or found["topicId"] in ids:
                self._uncharged.append(each)
                continue
            self._topics.append(each)
            ids.append(found["topicId"])
            costs.append(TopicMutation(found["name"], len(found["partitions"])))
        return Checked(costs, once=True, content=_content(self._request, ids))

    def forward(self, admitted: frozenset[int], waited_ms: int) -> dict[str, Any] | None:
        """Return the request with the admitted topics and those that are not charged."""
        topics = [topic for index, topic in enumerate(self._topics) if index in admitted] + self._uncharged
        return self._with(waited_ms, **{self._field: topics}) if topics else None

    def refuse(self, index: int, error: int, message: str | None) -> Answer:
        """Return the answer for a topic, by name or by id as it was asked for."""
        name, topic_id = self._identity(self._topics[index])
        return {"name": name, "topicId": topic_id, "errorCode": int(error), "errorMessage": message}

    @staticmethod
    def _identity(topic: str | dict[str, Any]) -> tuple[str | None, bytes]:
        return (topic, _NO_ID) if isinstance(topic, str) else (topic["name"], topic["topicId"])


def _describe(
    names: Sequence[str] = (), ids: Sequence[bytes] = ()
) -> Generator[Call, dict[str, Any], list[dict[str, Any]]]:
    """Return the topics that exist and may be seen, with `authorized`: whether the client may delete them."""
    asked = [{"name": each, "topicId": _NO_ID} for each in names] + [{"name": None, "topicId": each} for each in ids]
    if not asked:
        return []
    message = {"topics": asked, "allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": True}
    answer = yield Call(ApiKey.METADATA, METADATA_VERSION, message)
    return [
        {**each, "authorized": bool(each["topicAuthorizedOperations"] & _DELETE_BIT)}
        for each in answer["topics"]
        if not each["errorCode"] and each["name"] is not None
    ]


def _unknown(name: str) -> Answer:
    """Return the answer for a topic that was deleted after it was validated."""
    message = "This server does not host this topic-partition."
    return {"name": name, "errorCode": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "errorMessage": message}


def _content(request: ClientRequest, steps: Sequence[object]) -> bytes:
    """Return a digest of mutations: what exactly is changed, for whom, and in which version of the request."""
    content = (request.user, request.client_id, request.key, request.version, steps)
    return blake2b(codec.encode(content), digest_size=16).digest()


OPERATION_TYPES: dict[ApiKey, Callable[[ClientRequest, int], MutationOperation]] = {
    ApiKey.CREATE_TOPICS: Creation,
    ApiKey.CREATE_PARTITIONS: Growth,
    ApiKey.DELETE_TOPICS: Deletion,
}
