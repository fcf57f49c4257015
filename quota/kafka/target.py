"""The cluster on which mutations are carried out; each takes effect at most once, even if it is retried."""

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from quota.gateway.memory import NO_ID, ExistingTopic, RecentTopics
from quota.kafka.librdkafka import KeptClient
from quota.kafka.tasks import (
    TRANSIENT_CODES,
    Retry,
    Task,
    after_ambiguous_error,
    after_error,
    failure,
    group_into_calls,
    may_mean_done,
    needs_topic,
    result_without_call,
)
from quota.kafka.timing import Backoff, Deadline, now_monotonic_ms, now_ms
from quota.kafka.topics.topic_admin import Topic, describe_topics
from quota.records.decision import TopicDecision
from quota.records.request import Operation, TopicMutation
from quota.records.result import TopicResult
from quota.text import TOPIC_NAME

_log = logging.getLogger(__name__)

_MAX_CALL_SECONDS = 15.0
_MIN_CALL_SECONDS = 1.0
_STALE_MS = 5000
"""How long a broker's metadata may not show what was carried out."""
_LEGAL_NAME = re.compile(TOPIC_NAME)

_MAX_STRING_BYTES = 32_767
"""The longest string of Kafka's protocol; a longer one breaks the connection, for all calls that share it."""

_NO_SUCH_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})

_Answers = dict[str, TopicResult | Retry]


class Stopped(Exception):
    """The target was stopped during the tasks: some mutations may have been carried out without a known result."""


def _call_seconds(left: float) -> float:
    """Return the time limit of a call when so much time is left [s]."""
    return min(max(left, _MIN_CALL_SECONDS), _MAX_CALL_SECONDS)


class Target:
    """The cluster that mutations are carried out on. Thread-safe."""

    def __init__(
        self,
        config: Mapping[str, str | float],
        stop: threading.Event | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Create a client, which connects when it is used."""
        self._kept = KeptClient(lambda: AdminClient(dict(config)))
        self._stop = stop or threading.Event()
        self._check = check
        self._recent = RecentTopics(_STALE_MS)
        self._lock = threading.Lock()

    def carry_out(self, tasks: Sequence[Task], seconds: float) -> list[TopicResult]:
        """Carry tasks out in order, and return their results.

        A mutation that fails has the cluster's own message. If the cluster is busy or unreachable, calls are retried
        for `seconds` in all.
        """
        deadline = Deadline(seconds)
        results: list[TopicResult] = []
        outage: TopicResult | None = None
        for call in group_into_calls(tasks):
            if outage is not None:  # a thousand further calls would each wait in vain
                results += [failure(task.name, outage.error_code, outage.error_message or "") for task in call]
                continue
            answered = self._carry_out(call, deadline)
            results += answered
            if deadline.has_passed:
                outage = next((result for result in answered if result.error_code in TRANSIENT_CODES), None)
        return results

    def partitions(self, names: Sequence[str], seconds: float) -> tuple[dict[str, int], dict[str, KafkaError]]:
        """Return the partition counts of topics, without those that do not exist, and the errors of others."""
        topics, errors = self._describe(names, seconds)
        return self._corrected(topics, names), errors

    def topic_ids(self, names: Sequence[str], seconds: float) -> dict[str, str]:
        """Return the ids of topics, without those that are missing, cannot be described or were changed just now."""
        topics, _ = self._describe(names, _call_seconds(seconds))
        with self._lock:
            now, recent = now_monotonic_ms(), self._recent
            changed = {name for name in names if recent.find(name, NO_ID, now) or recent.is_gone(name, now)}
        return {name: topic.topic_id for name, topic in topics.items() if name not in changed}

    def _corrected(self, topics: Mapping[str, Topic], names: Sequence[str]) -> dict[str, int]:
        """Return the numbers of partitions that a broker reports, corrected by what was carried out just now."""
        counts = {name: len(topics[name].partitions) for name in names if name in topics}
        with self._lock:
            now = now_monotonic_ms()
            for name in names:
                recent = self._recent.find(name, NO_ID, now)
                if recent is not None:
                    counts[name] = max(recent.partitions, counts.get(name, 0))
                elif self._recent.is_gone(name, now):
                    counts.pop(name, None)
        return counts

    def _carry_out(self, call: Sequence[Task], deadline: Deadline) -> list[TopicResult]:
        """Carry out the tasks of one call, with retries until the deadline, and at least one attempt."""
        results: dict[str, TopicResult] = {}
        pending = list(call)
        pauses = Backoff()
        while True:
            if self._stop.is_set():
                raise Stopped
            if self._check is not None:
                self._check()
            answers = self._attempt(pending, _call_seconds(deadline.left()))
            is_last = deadline.has_passed
            retries = []
            for task in pending:
                answer = answers[task.name]
                if isinstance(answer, Retry) and not is_last:
                    retries.append(answer.task)
                else:
                    results[task.name] = self._result(task, answer)
            pending = retries
            if not pending:
                break
            if self._stop.wait(pauses.next()):
                raise Stopped
        return [results[task.name] for task in call]

    def _result(self, task: Task, answer: TopicResult | Retry) -> TopicResult:
        """Return the final result of a task, and record a success: brokers may lag behind for some ms."""
        if isinstance(answer, Retry):
            return failure(task.name, answer.error.code(), answer.error.str())
        if not answer.error_code and not task.validate_only:
            partitions = task.partitions_after
            with self._lock:
                record = self._recent.record_deletion if partitions is None else self._recent.record
                record(ExistingTopic(task.name, NO_ID, partitions or 0), now_monotonic_ms())
        return answer

    def _attempt(self, tasks: Sequence[Task], seconds: float) -> _Answers:
        """Make one attempt; a failure concerns only these tasks."""
        try:
            answers = self._before_call(tasks, seconds)
            called = [task for task in tasks if task.name not in answers]
            errors = self._change(called, seconds)
            return answers | self._after_call(called, errors, seconds)
        except KafkaException as error:  # the topics could not be described
            return {task.name: after_error(task, error.args[0]) for task in tasks}
        except Exception as error:  # noqa: BLE001 an applier would fail on these tasks again and again
            _log.exception("cannot carry out %s", ", ".join(task.name[:100] for task in tasks))
            return {task.name: failure(task.name, KafkaError.UNKNOWN, str(error)) for task in tasks}

    def _before_call(self, tasks: Sequence[Task], seconds: float) -> _Answers:
        """Return the results of tasks that need no call: expired, repeated, not charged for, or done already."""
        now = now_ms()
        names = [task.name for task in tasks if needs_topic(task, now)]
        known, problems = self._describe(names, seconds)
        current = self._corrected(known, names)
        answers: _Answers = {}
        for task in tasks:
            if task.name in problems:
                answers[task.name] = after_error(task, problems[task.name])
                continue
            if task.maybe_done and task.topic_id and task.name in known and known[task.name].topic_id != task.topic_id:
                answers[task.name] = TopicResult(task.name, found_done=True)  # it was deleted, and created again
                continue
            result = result_without_call(task, current.get(task.name), now)
            if result is not None:
                answers[task.name] = result
        return answers

    def _after_call(self, tasks: Sequence[Task], errors: Mapping[str, KafkaError | None], seconds: float) -> _Answers:
        """Return the results of a call: an error may mean that an earlier attempt at the same task succeeded."""
        answers: _Answers = {}
        doubtful: list[tuple[Task, KafkaError]] = []
        for task in tasks:
            error = errors[task.name]
            if error is None:
                answers[task.name] = TopicResult(task.name)
            elif not may_mean_done(task, error):
                answers[task.name] = after_error(task, error)
            elif task.operation is Operation.DELETE_TOPICS:
                answers[task.name] = TopicResult(task.name, found_done=True)
            else:
                doubtful.append((task, error))
        current, problems = self.partitions([task.name for task, _ in doubtful], seconds)
        for task, error in doubtful:
            problem = problems.get(task.name)
            answers[task.name] = (
                after_error(task, problem) if problem else after_ambiguous_error(task, current.get(task.name), error)
            )
        return answers

    def _describe(self, names: Iterable[str], seconds: float) -> tuple[dict[str, Topic], dict[str, KafkaError]]:
        """Return the topics that exist, and the errors of those that cannot be described."""
        legal = [name for name in dict.fromkeys(names) if _LEGAL_NAME.fullmatch(name)]
        topics, errors = describe_topics(self._kept, legal, seconds)
        return topics, {name: error for name, error in errors.items() if error.code() not in _NO_SUCH_TOPIC}

    def _change(self, tasks: Sequence[Task], seconds: float) -> dict[str, KafkaError | None]:
        """Carry out tasks that fit into one call, without retries; return the error of each topic, or None."""
        answers: dict[str, KafkaError | None] = {}
        for task in tasks:
            problem = _encoding_problem(task.topic)
            if problem is not None:
                answers[task.name] = KafkaError(KafkaError.TOPIC_EXCEPTION, problem)
        return answers | self._call([task for task in tasks if task.name not in answers], seconds)

    def _call(self, tasks: Sequence[Task], seconds: float) -> dict[str, KafkaError | None]:
        if not tasks:
            return {}
        admin = self._kept.client
        try:
            futures = _start_call(admin, tasks, seconds)
        except (ValueError, TypeError) as error:  # librdkafka rejects one of them without sending any
            if len(tasks) == 1:
                return {tasks[0].name: KafkaError(KafkaError.INVALID_REQUEST, str(error))}
            return {name: outcome for task in tasks for name, outcome in self._call([task], seconds).items()}
        done, errors = self._kept.results(admin, futures)
        return {**done, **errors}


def _start_call(admin: AdminClient, tasks: Sequence[Task], seconds: float) -> dict[str, Future[None]]:
    options: dict[str, Any] = {"request_timeout": seconds, "operation_timeout": seconds}
    match tasks[0].operation:
        case Operation.DELETE_TOPICS:
            return admin.delete_topics([task.name for task in tasks], **options)
        case Operation.CREATE_TOPICS:
            options["validate_only"] = tasks[0].validate_only
            return admin.create_topics([_new_topic(task.topic) for task in tasks], **options)
        case Operation.CREATE_PARTITIONS:
            options["validate_only"] = tasks[0].validate_only
            return admin.create_partitions([_new_partitions(task.topic) for task in tasks], **options)


def _encoding_problem(topic: TopicMutation | TopicDecision) -> str | None:
    """Return why a topic must not be sent; None if it may.

    librdkafka ends a string at a zero character, and what precedes it may be the name of another topic.
    """
    configs = topic.configs or {}
    for text in (topic.name, *configs.keys(), *configs.values()):
        if "\0" in text:
            return f"a name, config or value contains a NUL character: {text[:100]!r}"
        if len(text.encode()) > _MAX_STRING_BYTES:
            return f"a name, config or value is longer than {_MAX_STRING_BYTES} bytes: {text[:100]!r}..."
    return None


def _new_topic(topic: TopicMutation | TopicDecision) -> NewTopic:
    options: dict[str, Any] = {}
    if topic.assignments is not None:
        options["replica_assignment"] = topic.assignments
    elif topic.replication_factor is not None:
        options["replication_factor"] = topic.replication_factor
    if topic.configs is not None:
        options["config"] = topic.configs
    return NewTopic(topic.name, topic.partitions, **options)


def _new_partitions(topic: TopicMutation | TopicDecision) -> NewPartitions:
    count = topic.count or 0  # a task without a count is rejected before
    if topic.assignments is None:
        return NewPartitions(topic.name, count)
    return NewPartitions(topic.name, count, topic.assignments)
