"""Tasks: admitted mutations to carry out on a cluster, the calls that carry them out together, and their results."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError

from quota.records.decision import TopicDecision
from quota.records.request import Operation, TopicMutation
from quota.records.result import TopicResult
from quota.text import plural

MAX_CALL_MUTATIONS = 1000
"""Maximum partition mutations in a call, unless a single topic has more. The next call waits for its answer."""

MAX_CALL_TOPICS = 500
"""Maximum topics in a call, including those that cost nothing."""

_NOT_DONE = frozenset(
    {
        KafkaError.NOT_CONTROLLER,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    }
)
"""Transient errors of mutations that were not carried out."""

_MAYBE_DONE = frozenset(
    {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    }
)
"""Transient errors of mutations that may have been carried out."""

TRANSIENT_CODES = _NOT_DONE | _MAYBE_DONE

_DONE_BEFORE = {
    Operation.CREATE_TOPICS: KafkaError.TOPIC_ALREADY_EXISTS,
    Operation.CREATE_PARTITIONS: KafkaError.INVALID_PARTITIONS,
    Operation.DELETE_TOPICS: KafkaError.UNKNOWN_TOPIC_OR_PART,
}
"""The error of a mutation that was carried out before."""

_KAFKA_NAMES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
}
"""Kafka's names of errors, where librdkafka's differ."""


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


@dataclass(frozen=True, slots=True)
class Retry:
    """A task to retry, and the error of the last attempt."""

    task: Task
    error: KafkaError


def failure(name: str, code: int, message: str) -> TopicResult:
    """Return the result of a topic whose mutation is not carried out."""
    return TopicResult(name, code, _KAFKA_NAMES.get(code, KafkaError(code).name()), message)


def after_error(task: Task, error: KafkaError) -> TopicResult | Retry:
    """Return the result of a task whose call failed; a transient error is retried."""
    if error.code() in TRANSIENT_CODES:
        return Retry(replace(task, maybe_done=task.maybe_done or error.code() in _MAYBE_DONE), error)
    return failure(task.name, error.code(), error.str())


def may_mean_done(task: Task, error: KafkaError) -> bool:
    """Return whether an error may come from an earlier attempt at the same task that succeeded."""
    return task.maybe_done and error.code() == _DONE_BEFORE[task.operation]


def is_forbidden(task: Task, now_ms: float) -> bool:
    """Return whether a task must not be carried out: it is expired, or another decision's task carries it out."""
    return bool(task.repeats) or (task.expires_at is not None and now_ms >= task.expires_at)


def needs_topic(task: Task, now_ms: float) -> bool:
    """Return whether `result_without_call` needs the topic's partition count."""
    was_maybe_done = task.maybe_done or task.repeats is not None
    return task.operation is not Operation.CREATE_TOPICS or (was_maybe_done and is_forbidden(task, now_ms))


def result_without_call(task: Task, current: int | None, now_ms: float) -> TopicResult | None:
    """Return the result of a task that needs no call; None for a task to try.

    `current` is the topic's partition count, None if it does not exist or is not needed.
    """
    return _result_if_forbidden(task, current) if is_forbidden(task, now_ms) else _result_if_needless(task, current)


def after_ambiguous_error(task: Task, current: int | None, error: KafkaError) -> TopicResult | Retry:
    """Return the result of a task whose error may mean that it was carried out before.

    `current` is the topic's partition count, None if it does not exist.
    """
    if task.is_done(current):
        return TopicResult(task.name, found_done=True)
    if current is None or current < (task.partitions_after or 0):  # the broker lags behind its controller
        return Retry(task, error)
    return after_error(task, error)


def _result_if_forbidden(task: Task, current: int | None) -> TopicResult:
    if (task.maybe_done or task.repeats is not None) and task.is_done(current):
        return TopicResult(task.name, found_done=True)
    if task.repeats is not None:
        not_twice = f"decision {task.repeats} admitted this before, and it is not carried out twice; see its result"
        return failure(task.name, KafkaError.POLICY_VIOLATION, not_twice)
    late = f"expired: it had to be started before {task.expires_at} (epoch ms)"
    return failure(task.name, KafkaError.REQUEST_TIMED_OUT, late)


def _result_if_needless(task: Task, current: int | None) -> TopicResult | None:
    if task.operation is Operation.CREATE_TOPICS:
        return None
    excess = cost_error(task, current or 0)
    if current is None:
        if excess is None and task.topic.partitions and not task.validate_only:
            return None  # a broker may lag behind: the controller knows
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return failure(task.name, unknown.code(), unknown.str())
    if task.maybe_done and task.is_done(current):
        return TopicResult(task.name, found_done=True)
    if excess is not None:
        return failure(task.name, KafkaError.POLICY_VIOLATION, excess)
    # Kafka's DELETE_TOPICS has no validate_only, so the topic's existence is the validation.
    validated = task.operation is Operation.DELETE_TOPICS and task.validate_only
    return TopicResult(task.name) if validated else None
