"""What is to be carried out on a cluster, topic by topic, and in which calls."""

from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass

from quota.records.decision import ErrorCode, TopicDecision
from quota.records.request import Operation, TopicMutation

CALL_MUTATIONS = 1000
"""Partition mutations of one call, unless a single topic has more: the cluster answers before it gets the next ones."""

CALL_TOPICS = 500
"""Topics of one call: those that cost nothing count too."""


@dataclass(frozen=True, slots=True)
class Task:
    """One topic's admitted mutation.

    `maybe_done` says that it may have been carried out before, by an attempt whose answer nobody knows.
    """

    operation: Operation
    topic: TopicMutation | TopicDecision
    validate_only: bool = False
    expires_at: int | None = None
    maybe_done: bool = False
    repeats: str | None = None
    """The decision that admitted this before: it is that one's to be carried out, and only looked at here."""

    @property
    def name(self) -> str:
        """The topic's."""
        return self.topic.name

    @property
    def partitions_after(self) -> int | None:
        """How many partitions the topic has once this is carried out; None where it is gone."""
        match self.operation, self.topic.count:
            case Operation.CREATE_TOPICS, _:
                return self.topic.partitions
            case Operation.CREATE_PARTITIONS, int(count):
                return count
            case _:
                return None

    def is_done(self, current: int | None) -> bool:
        """Whether a topic of `current` partitions, None where there is none, is as this is to make it."""
        if self.operation is Operation.CREATE_PARTITIONS and current is None:
            return False
        return current == self.partitions_after


def admitted(topics: Iterable[TopicDecision]) -> list[TopicDecision]:
    """Those of a decision's topics that may be carried out."""
    return [topic for topic in topics if topic.error_code == ErrorCode.NONE]


def in_calls(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Tasks that one call can take together, in their order: of one kind, and no topic twice."""
    call: list[Task] = []
    names: set[str] = set()
    mutations = 0
    for task in tasks:
        mutations += task.topic.partitions
        if call and (not _alike(task, call[0]) or task.name in names or _too_much(call, mutations)):
            yield call
            call, names, mutations = [], set(), task.topic.partitions
        call.append(task)
        names.add(task.name)
    if call:
        yield call


def uncharged(task: Task, current: int) -> str | None:
    """What is wrong where a mutation of a topic of `current` partitions costs more than it was admitted for."""
    match task.operation, task.topic.count:
        case Operation.CREATE_TOPICS, _:
            return None
        case Operation.DELETE_TOPICS, _:
            cost = current
        case Operation.CREATE_PARTITIONS, int(count):
            cost = count - current
        case _:
            return "the request has no count, so nobody knows how many partitions the topic is to have"
    if cost > task.topic.partitions:
        return (
            f"the topic has {current} partitions: this costs {cost} mutations, and {task.topic.partitions} were charged"
        )
    return None


def _too_much(call: Sized, mutations: int) -> bool:
    return mutations > CALL_MUTATIONS or len(call) >= CALL_TOPICS


def _alike(task: Task, other: Task) -> bool:
    return (task.operation, task.validate_only) == (other.operation, other.validate_only)
