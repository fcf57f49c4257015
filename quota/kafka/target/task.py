"""Tasks: admitted mutations to carry out on a cluster, and the calls that carry them out together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from quota.errors import ErrorCode
from quota.records.decision import TopicDecision
from quota.records.request import Operation, TopicMutation
from quota.text import plural

MAX_CALL_MUTATIONS = 1000
"""Maximum partition mutations in a call, unless a single topic has more. The next call waits for its answer."""

MAX_CALL_TOPICS = 500
"""Maximum topics in a call, including those that cost nothing."""


@dataclass(frozen=True, slots=True)
class Task:
    """One topic's admitted mutation."""

    operation: Operation
    topic: TopicMutation | TopicDecision
    validate_only: bool = False
    expires_at: int | None = None
    """The time (epoch ms) from which the task must not be started; None for no limit."""
    maybe_done: bool = False
    """Whether an earlier attempt with an unknown result may have carried it out."""
    repeats: str | None = None
    """The id of the earlier decision that admitted the same request, and whose task carries it out; this task only
    checks the topic."""

    topic_id: str | None = None
    """The id of the topic to delete, as noted before the first attempt; None if it is not known."""

    grown_to: frozenset[int] = frozenset()
    """The numbers of partitions to which later tasks, which may also have been carried out, make the topic grow."""

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.topic.name

    @property
    def partitions_after(self) -> int | None:
        """The number of partitions of the topic once this is carried out; None if it is deleted or unknown."""
        match self.operation, self.topic.count:
            case Operation.CREATE_TOPICS, _:
                return self.topic.partitions
            case Operation.CREATE_PARTITIONS, int(count):
                return count
            case _:
                return None

    def is_done(self, current: int | None) -> bool:
        """Return whether a topic of `current` partitions, None if it does not exist, is in a state after this."""
        if self.operation is Operation.CREATE_PARTITIONS and current is None:
            return False
        after = self.partitions_after
        if current is None or after is None:
            return current == after
        return current == after or (current > after and current in self.grown_to)


def admitted_topics(topics: Iterable[TopicDecision]) -> list[TopicDecision]:
    """Return those of a decision's topics that may be carried out."""
    return [topic for topic in topics if topic.error_code == ErrorCode.NONE]


def with_later_growth(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks of a batch that may have been carried out before, each with the later growth of its topic.

    A growth that was read in another batch than the task before it is not known.
    """
    known: list[Task] = []
    growth: dict[str, frozenset[int]] = {}
    for task in reversed(list(tasks)):
        known.append(replace(task, grown_to=growth.get(task.name, frozenset())) if task.maybe_done else task)
        if task.validate_only or task.repeats is not None:
            continue  # it changes nothing
        if task.operation is not Operation.CREATE_PARTITIONS:
            growth.pop(task.name, None)
        elif task.maybe_done and task.partitions_after is not None:
            growth[task.name] = growth.get(task.name, frozenset()) | {task.partitions_after}
    return known[::-1]


def group_into_calls(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Group consecutive tasks into calls, each of one operation and with no topic twice.

    A call has at most `MAX_CALL_MUTATIONS` mutations and `MAX_CALL_TOPICS` topics.
    """
    call: list[Task] = []
    names: set[str] = set()
    mutations = 0
    for task in tasks:
        mutations += task.topic.partitions
        is_full = mutations > MAX_CALL_MUTATIONS or len(call) >= MAX_CALL_TOPICS
        if call and (is_full or task.name in names or _kind(task) != _kind(call[0])):
            yield call
            call, names, mutations = [], set(), task.topic.partitions
        call.append(task)
        names.add(task.name)
    if call:
        yield call


def cost_error(task: Task, current: int) -> str | None:
    """Return an error if a task costs more than was charged, on a topic that has `current` partitions."""
    match task.operation, task.topic.count:
        case Operation.CREATE_TOPICS, _:
            return None
        case Operation.DELETE_TOPICS, _:
            cost = current
        case Operation.CREATE_PARTITIONS, int(count):
            cost = count - current
        case _:
            return "the request has no count, so the new number of partitions is unknown"
    if cost > task.topic.partitions:
        return (
            f"the topic has {plural(current, 'partition')}: this costs {plural(cost, 'mutation')}, "
            f"and {task.topic.partitions:,} {'was' if task.topic.partitions == 1 else 'were'} charged"
        )
    return None


def _kind(task: Task) -> tuple[Operation, bool]:
    return task.operation, task.validate_only
