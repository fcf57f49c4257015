"""A client's calls, and the outcomes of their topics."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from quota.client.task import Task
from quota.records.request import Operation, TopicMutation
from quota.records.result import TopicResult


class Wait(enum.Enum):
    """The answer that a topic of a call is waiting for."""

    DECISION = "decision"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The decision that refused a topic, and the time from which the topic can be requested again [epoch ms]."""

    decision_id: str
    retry_at: int


@dataclass(frozen=True, slots=True)
class Throttled:
    """The outcome of a refused topic, with the remaining throttle time."""

    name: str
    throttle_time_ms: int
    refusal: Refusal | None = None
    """The last decision on the topic; None if the topic was never requested, because of an earlier throttle."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The outcome of a topic that was still waiting at the time limit."""

    name: str
    wait: Wait


TopicOutcome = TopicResult | Throttled | NoAnswer


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The operation of a call and its options, the same for all of its topics."""

    operation: Operation
    validate_only: bool = False
    retry_on_quota_violation: bool = True

    def task(self, topic: TopicMutation) -> Task:
        """Return the task that carries a topic's mutation out."""
        return Task(self.operation, topic, self.validate_only)


@dataclass(eq=False, slots=True)
class Call:
    """An application's call: topic mutations with a common time limit, and their progress."""

    options: CallOptions
    topics: list[TopicMutation]
    deadline: float
    """The time limit, in seconds of the conversation's clock."""
    pending: dict[str, TopicMutation] = field(init=False)
    """Topics without an outcome, by name."""
    refused: dict[str, Refusal] = field(init=False, default_factory=dict)
    """The topics that the last decision on them refused, by name."""
    decision_ids: dict[str, str] = field(init=False, default_factory=dict)
    """The id of the last decision on each topic, by name."""
    waits: dict[str, Wait] = field(init=False, default_factory=dict)
    """The answer that each topic sent is waiting for, by name."""
    request_ids: set[str] = field(init=False, default_factory=set)
    """Ids of all requests sent for this call."""

    def __post_init__(self) -> None:
        self.pending = {topic.name: topic for topic in self.topics}

    def await_results(self, topics: Iterable[TopicMutation]) -> None:
        """Record that topics are admitted, and now wait for their results."""
        for topic in topics:
            self.refused.pop(topic.name, None)
            self.waits[topic.name] = Wait.RESULT
