"""Carrying mutations out on a cluster, each at most once in effect, however often it is tried."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError, KafkaException

from quota.client.recent_changes import RecentChanges
from quota.client.task import Task, in_calls, uncharged
from quota.kafka.topic_calls import TopicCalls
from quota.records.request import Operation
from quota.records.result import TopicResult

_log = logging.getLogger(__name__)

_BACKOFF_SECONDS = (0.1, 0.2, 0.5, 1.0)
_CALL_SECONDS = 15.0
_MIN_SECONDS = 1.0

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
"""Answers after which it is worth trying again."""

_NOBODY_KNOWS = frozenset(
    {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    }
)
"""Likewise, but it may have been carried out."""

_PASSING = _NOT_DONE | _NOBODY_KNOWS

_DONE_BEFORE = {
    Operation.CREATE_TOPICS: KafkaError.TOPIC_ALREADY_EXISTS,
    Operation.CREATE_PARTITIONS: KafkaError.INVALID_PARTITIONS,
    Operation.DELETE_TOPICS: KafkaError.UNKNOWN_TOPIC_OR_PART,
}
"""What a controller says to a mutation that was carried out before."""

_KAFKA_NAMES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
}
"""Where librdkafka has names of its own."""


class Stopped(Exception):
    """Told to stop in the middle: some mutations may be carried out without anybody knowing."""


@dataclass(frozen=True, slots=True)
class _Again:
    """A task that is worth another attempt, and why this one came to nothing."""

    task: Task
    error: KafkaError


_Answers = dict[str, TopicResult | _Again]


class Target:
    """The cluster that mutations are for. Safe for threads."""

    def __init__(
        self,
        config: Mapping[str, str | float],
        stop: threading.Event | None = None,
        before_call: Callable[[], None] | None = None,
    ) -> None:
        """Connect when it is needed.

        Args:
            config: librdkafka's settings for it.
            stop: ends `carry_out` between two calls.
            before_call: called before each call, which it may forbid by raising.
        """
        self._calls = TopicCalls(config)
        self._stop = stop or threading.Event()
        self._before_call = before_call
        self._recent = RecentChanges()

    def carry_out(self, tasks: Sequence[Task], seconds: float) -> list[TopicResult]:
        """Carry tasks out in their order, and tell what became of each.

        What cannot be carried out is told with the cluster's own message. A cluster that is busy or away is asked
        again, for `seconds` in all.

        Raises:
            Stopped: before all were done.
        """
        deadline = time.monotonic() + seconds
        results: list[TopicResult] = []
        away: KafkaError | None = None
        for call in in_calls(tasks):
            if away is not None:  # nobody asks each of a thousand calls anew
                results += [failure(task.name, away.code(), away.str()) for task in call]
                continue
            told = self._carry_out(call, deadline)
            results += told
            if time.monotonic() >= deadline:
                failed = [each for each in told if each.error_code in _PASSING]
                away = KafkaError(failed[0].error_code, failed[0].error_message) if failed else None
        return results

    def partitions(self, names: Sequence[str], seconds: float) -> dict[str, int]:
        """How many partitions topics have; those that do not exist are left out.

        Raises:
            KafkaException: the cluster does not tell.
        """
        return self._recent.over(self._calls.partitions(names, seconds), names, time.monotonic())

    def note(self, task: Task) -> None:
        """Take note that a task was carried out, by this or by someone else: brokers may be behind for a moment."""
        if not task.validate_only:
            self._recent.note(task.name, task.partitions_after, time.monotonic())

    def _carry_out(self, call: Sequence[Task], deadline: float) -> list[TopicResult]:
        results: dict[str, TopicResult] = {}
        left = list(call)
        for attempt in itertools.count():
            if self._stop.is_set():
                raise Stopped
            if self._before_call is not None:
                self._before_call()
            answers = self._try(left, min(max(deadline - time.monotonic(), _MIN_SECONDS), _CALL_SECONDS))
            last = time.monotonic() >= deadline
            again = []
            for task in left:
                answer = answers[task.name]
                if isinstance(answer, TopicResult):
                    results[task.name] = answer
                    if not answer.error_code:
                        self.note(task)
                elif last:
                    results[task.name] = failure(task.name, answer.error.code(), answer.error.str())
                else:
                    again.append(answer.task)
            left = again
            if not left:
                break
            if self._stop.wait(_BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS) - 1)]):
                raise Stopped
        return [results[task.name] for task in call]

    def _try(self, tasks: Sequence[Task], seconds: float) -> _Answers:
        """One attempt. Whatever goes wrong with it belongs to these tasks alone."""
        try:
            answers = self._looked_at(tasks, seconds)
            asked = [task for task in tasks if task.name not in answers]
            errors = self._calls.change(asked, seconds)
            return answers | self._told(asked, errors, seconds)
        except KafkaException as error:  # it does not say how the topics are
            return {task.name: _answer(task, error.args[0]) for task in tasks}
        except Exception as error:  # noqa: BLE001 it must not come back with these tasks again and again
            _log.exception("cannot carry out %s", ", ".join(task.name[:100] for task in tasks))
            return {task.name: failure(task.name, KafkaError.UNKNOWN, str(error)) for task in tasks}

    def _looked_at(self, tasks: Sequence[Task], seconds: float) -> _Answers:
        """What needs no call: too late, another decision's, not charged for, or done already."""
        now = time.time() * 1000
        not_now = {
            task.name for task in tasks if task.repeats or (task.expires_at is not None and now >= task.expires_at)
        }
        looks = [
            task
            for task in tasks
            if task.operation is not Operation.CREATE_TOPICS or (_may_be_done(task) and task.name in not_now)
        ]
        current = self.partitions([task.name for task in looks], seconds) if looks else {}
        answers: _Answers = {}
        for task in tasks:
            verdict = (_not_now if task.name in not_now else _verdict)(task, current.get(task.name))
            if verdict is not None:
                answers[task.name] = verdict
        return answers

    def _told(self, tasks: Sequence[Task], errors: Mapping[str, KafkaError | None], seconds: float) -> _Answers:
        """What the cluster's answers mean: it may say that a topic is already as this very task has made it."""
        answers: _Answers = {}
        doubtful = []
        for task in tasks:
            error = errors[task.name]
            if error is None:
                answers[task.name] = TopicResult(task.name)
            elif not task.maybe_done or error.code() != _DONE_BEFORE[task.operation]:
                answers[task.name] = _answer(task, error)
            elif task.operation is Operation.DELETE_TOPICS:
                answers[task.name] = TopicResult(task.name, found_done=True)
            else:
                doubtful.append((task, error))
        current = self.partitions([task.name for task, _ in doubtful], seconds) if doubtful else {}
        for task, error in doubtful:
            found = current.get(task.name)
            if task.is_done(found):
                answers[task.name] = TopicResult(task.name, found_done=True)
            elif found is None or found < (task.partitions_after or 0):  # a broker that is behind its controller
                answers[task.name] = _Again(task, error)
            else:
                answers[task.name] = _answer(task, error)
        return answers


def failure(name: str, code: int, message: str) -> TopicResult:
    """The result of a topic that is not carried out."""
    return TopicResult(name, code, _KAFKA_NAMES.get(code, KafkaError(code).name()), message)


def _answer(task: Task, error: KafkaError) -> TopicResult | _Again:
    if error.code() in _PASSING:
        return _Again(replace(task, maybe_done=task.maybe_done or error.code() in _NOBODY_KNOWS), error)
    return failure(task.name, error.code(), error.str())


def _may_be_done(task: Task) -> bool:
    return task.maybe_done or task.repeats is not None


def _not_now(task: Task, current: int | None) -> TopicResult:
    """What is said of a task that must not be carried out: it is done already, or why it is not done."""
    if _may_be_done(task) and task.is_done(current):
        return TopicResult(task.name, found_done=True)
    if task.repeats is not None:
        not_twice = f"decision {task.repeats} admitted this before, and it is not carried out twice; see its result"
        return failure(task.name, KafkaError.POLICY_VIOLATION, not_twice)
    late = f"too late: it was to be done before {task.expires_at} (epoch ms)"
    return failure(task.name, KafkaError.REQUEST_TIMED_OUT, late)


def _verdict(task: Task, current: int | None) -> TopicResult | None:
    """What a topic of `current` partitions, None where there is none, says of a task; None if it is to be tried."""
    if task.operation is Operation.CREATE_TOPICS:
        return None
    reason = uncharged(task, current or 0)
    if current is None:
        if reason is None and task.topic.partitions and not task.validate_only:
            return None  # a broker may be behind: the controller knows
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return failure(task.name, unknown.code(), unknown.str())
    if task.maybe_done and task.is_done(current):
        return TopicResult(task.name, found_done=True)
    if reason is not None:
        return failure(task.name, KafkaError.POLICY_VIOLATION, reason)
    checked = task.operation is Operation.DELETE_TOPICS and task.validate_only  # Kafka's own request has no such option
    return TopicResult(task.name) if checked else None
