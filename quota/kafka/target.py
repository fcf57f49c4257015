"""Carrying mutations out on a cluster, each at most once in effect, however often it is tried."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from quota.decision import TopicDecision
from quota.recent import RecentChanges
from quota.request import Operation, TopicMutation
from quota.result import TopicResult
from quota.task import Task, in_calls, uncharged

_BACKOFF_SECONDS = (0.1, 0.2, 0.5, 1.0)
_CALL_SECONDS = 30.0
_MIN_SECONDS = 1.0

_NOT_DONE = frozenset(
    {
        KafkaError.NOT_CONTROLLER,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    }
)
_NOBODY_KNOWS = frozenset(
    {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    }
)
"""Answers after which it is worth trying again: where nothing was done, and where it may have been."""

_DONE_BEFORE = {
    Operation.CREATE_TOPICS: KafkaError.TOPIC_ALREADY_EXISTS,
    Operation.CREATE_PARTITIONS: KafkaError.INVALID_PARTITIONS,
    Operation.DELETE_TOPICS: KafkaError.UNKNOWN_TOPIC_OR_PART,
}
"""What a cluster says to a mutation that was carried out before."""

_KAFKA_NAMES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
}
"""Where librdkafka has names of its own."""


class Stopped(Exception):
    """Told to stop in the middle: some mutations may be carried out without anybody knowing."""


class Target:
    """The cluster that mutations are for."""

    def __init__(self, config: Mapping[str, str | float], stop: threading.Event | None = None) -> None:
        """Take librdkafka's settings for it; `stop` breaks off waiting for a cluster that does not answer."""
        self._admin = AdminClient(dict(config))
        self._stop = stop or threading.Event()
        self._recent = RecentChanges()

    def carry_out(self, tasks: Sequence[Task], seconds: float) -> list[TopicResult]:
        """Carry tasks out in their order, and tell what became of each.

        What cannot be carried out is told with the cluster's own message. A cluster that is busy or away is asked
        again, for `seconds` in all.

        Raises:
            Stopped: before it answered.
        """
        deadline = time.monotonic() + seconds
        return [result for call in in_calls(tasks) for result in self._carry_out(call, deadline)]

    def partitions(self, names: Sequence[str], seconds: float) -> dict[str, int]:
        """How many partitions topics have; those that do not exist are left out.

        Raises:
            KafkaException: the cluster does not tell.
        """
        found = {}
        for name, future in self._admin.describe_topics(TopicCollection(list(names)), request_timeout=seconds).items():
            try:
                found[name] = len(future.result().partitions)
            except KafkaException as error:
                if error.args[0].code() not in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}:
                    raise
        return self._recent.over(found, list(names), time.monotonic())

    def note(self, task: Task) -> None:
        """Take note that a task was carried out, by this or by someone else: brokers may be behind for a moment."""
        if not task.validate_only:
            self._recent.note(task.name, task.partitions_after, time.monotonic())

    def _carry_out(self, call: Sequence[Task], deadline: float) -> list[TopicResult]:
        results: dict[str, TopicResult] = {}
        left = list(call)
        attempt = 0
        while left:
            seconds = min(max(deadline - time.monotonic(), _MIN_SECONDS), _CALL_SECONDS)
            answers = self._ask(left, seconds)
            last = time.monotonic() >= deadline
            again = []
            for task in left:
                answer = answers[task.name]
                if isinstance(answer, TopicResult):
                    results[task.name] = answer
                    if not answer.error_code:
                        self.note(task)
                elif last or answer.code() not in _NOT_DONE | _NOBODY_KNOWS:
                    results[task.name] = self._failed(task, answer, seconds)
                else:
                    again.append(replace(task, maybe_done=task.maybe_done or answer.code() in _NOBODY_KNOWS))
            left = again
            if left and self._stop.wait(_BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS) - 1)]):
                raise Stopped
            attempt += 1
        return [results[task.name] for task in call]

    def _ask(self, tasks: Sequence[Task], seconds: float) -> dict[str, TopicResult | KafkaError]:
        """Try once: what became of each topic, or why the cluster did nothing."""
        answers: dict[str, TopicResult | KafkaError] = {}
        now = time.time() * 1000
        for task in tasks:
            if task.expires_at is not None and now >= task.expires_at:
                late = f"too late: it was to be carried out before {task.expires_at} (epoch ms)"
                answers[task.name] = failure(task.name, KafkaError.REQUEST_TIMED_OUT, late)
        asked = [task for task in tasks if task.name not in answers]
        try:
            if asked and asked[0].operation is not Operation.CREATE_TOPICS:
                answers |= self._not_to_ask(asked, seconds)
                asked = [task for task in asked if task.name not in answers]
            return answers | self._call(asked, seconds)
        except KafkaException as error:
            return {task.name: error.args[0] for task in asked} | answers

    def _not_to_ask(self, tasks: Sequence[Task], seconds: float) -> dict[str, TopicResult]:
        """What the topics as they are now say of tasks: done before, or not charged for."""
        current = self.partitions([task.name for task in tasks], seconds)
        results = {}
        for task in tasks:
            name = task.name
            reason = uncharged(task, current.get(name, 0))
            if task.maybe_done and task.is_done(current.get(name)):
                results[name] = TopicResult(name, found_done=True)
            elif name not in current and (reason is not None or not task.topic.partitions or task.validate_only):
                unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
                results[name] = failure(name, unknown.code(), unknown.str())
            elif reason is not None:
                results[name] = failure(name, KafkaError.POLICY_VIOLATION, reason)
            elif task.operation is Operation.DELETE_TOPICS and task.validate_only:
                results[name] = TopicResult(name)  # Kafka's own request has no such option
        return results

    def _call(self, tasks: Sequence[Task], seconds: float) -> dict[str, TopicResult | KafkaError]:
        if not tasks:
            return {}
        try:
            futures = self._futures(tasks, seconds)
        except (ValueError, TypeError) as error:  # librdkafka would not even send one of them
            if len(tasks) == 1:
                return {tasks[0].name: failure(tasks[0].name, KafkaError.INVALID_REQUEST, str(error))}
            return {name: each for task in tasks for name, each in self._call([task], seconds).items()}
        answers: dict[str, TopicResult | KafkaError] = {}
        for name, future in futures.items():
            try:
                future.result()
                answers[name] = TopicResult(name)
            except KafkaException as error:
                answers[name] = error.args[0]
        return answers

    def _futures(self, tasks: Sequence[Task], seconds: float) -> dict[str, Future[None]]:
        options: dict[str, object] = {"request_timeout": seconds, "operation_timeout": seconds}
        match tasks[0].operation:
            case Operation.DELETE_TOPICS:
                return self._admin.delete_topics([task.name for task in tasks], **options)
            case Operation.CREATE_TOPICS:
                options["validate_only"] = tasks[0].validate_only
                return self._admin.create_topics([_new_topic(task.topic) for task in tasks], **options)
            case Operation.CREATE_PARTITIONS:
                options["validate_only"] = tasks[0].validate_only
                return self._admin.create_partitions([_new_partitions(task.topic) for task in tasks], **options)

    def _failed(self, task: Task, error: KafkaError, seconds: float) -> TopicResult:
        """What is told of a topic that the cluster refused to change: perhaps because it was changed before."""
        if task.maybe_done and error.code() == _DONE_BEFORE[task.operation]:
            try:
                current = self.partitions([task.name], seconds).get(task.name)
            except KafkaException as other:
                error = other.args[0]
            else:
                if task.is_done(current):
                    return TopicResult(task.name, found_done=True)
        return failure(task.name, error.code(), error.str())


def failure(name: str, code: int, message: str) -> TopicResult:
    """The result of a topic that is not carried out."""
    return TopicResult(name, code, _KAFKA_NAMES.get(code, KafkaError(code).name()), message)


def _new_topic(topic: TopicMutation | TopicDecision) -> NewTopic:
    more: dict[str, Any] = {}
    if topic.assignments is not msgspec.UNSET:
        more["replica_assignment"] = topic.assignments
    elif topic.replication_factor is not msgspec.UNSET:
        more["replication_factor"] = topic.replication_factor
    if topic.configs is not msgspec.UNSET:
        more["config"] = topic.configs
    return NewTopic(topic.name, topic.partitions, **more)


def _new_partitions(topic: TopicMutation | TopicDecision) -> NewPartitions:
    count = topic.count or 0  # without one it does not come as far as this
    if topic.assignments is msgspec.UNSET:
        return NewPartitions(topic.name, count)
    return NewPartitions(topic.name, count, topic.assignments)
