"""Results of tasks, derived from the cluster's errors and the current state of topics."""

from dataclasses import dataclass, replace

from confluent_kafka import KafkaError

from quota.kafka.target.task import Task, cost_error
from quota.records.request import Operation
from quota.records.result import TopicResult

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
class Retry:
    """A task to retry, and the error of the last attempt."""

    task: Task
    error: KafkaError


def failure(name: str, code: int, message: str) -> TopicResult:
    """Return the result of a topic whose mutation is not carried out."""
    return TopicResult(name, code, _KAFKA_NAMES.get(code, KafkaError(code).name()), message)


def found_done(task: Task) -> TopicResult:
    """Return the result of a task that was carried out before."""
    return TopicResult(task.name, found_done=True)


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
    """Return whether `before_call` needs the topic's partition count."""
    was_maybe_done = task.maybe_done or task.repeats is not None
    return task.operation is not Operation.CREATE_TOPICS or (was_maybe_done and is_forbidden(task, now_ms))


def before_call(task: Task, current: int | None, now_ms: float) -> TopicResult | None:
    """Return the result of a task that needs no call; None for a task to try.

    `current` is the topic's partition count, None if it does not exist or is not needed.
    """
    return _forbidden(task, current) if is_forbidden(task, now_ms) else _unneeded(task, current)


def after_ambiguous_error(task: Task, current: int | None, error: KafkaError) -> TopicResult | Retry:
    """Return the result of a task whose error may mean that it was carried out before.

    `current` is the topic's partition count, None if it does not exist.
    """
    if task.is_done(current):
        return found_done(task)
    if current is None or current < (task.partitions_after or 0):  # the broker lags behind its controller
        return Retry(task, error)
    return after_error(task, error)


def _forbidden(task: Task, current: int | None) -> TopicResult:
    if (task.maybe_done or task.repeats is not None) and task.is_done(current):
        return found_done(task)
    if task.repeats is not None:
        not_twice = f"decision {task.repeats} admitted this before, and it is not carried out twice; see its result"
        return failure(task.name, KafkaError.POLICY_VIOLATION, not_twice)
    late = f"expired: it had to be started before {task.expires_at} (epoch ms)"
    return failure(task.name, KafkaError.REQUEST_TIMED_OUT, late)


def _unneeded(task: Task, current: int | None) -> TopicResult | None:
    if task.operation is Operation.CREATE_TOPICS:
        return None
    excess = cost_error(task, current or 0)
    if current is None:
        if excess is None and task.topic.partitions and not task.validate_only:
            return None  # a broker may lag behind: the controller knows
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return failure(task.name, unknown.code(), unknown.str())
    if task.maybe_done and task.is_done(current):
        return found_done(task)
    if excess is not None:
        return failure(task.name, KafkaError.POLICY_VIOLATION, excess)
    # Kafka's DELETE_TOPICS has no validate_only, so the topic's existence is the validation.
    validated = task.operation is Operation.DELETE_TOPICS and task.validate_only
    return TopicResult(task.name) if validated else None
