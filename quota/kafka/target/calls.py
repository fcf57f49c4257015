"""The calls of an AdminClient that describe and change topics; input that it cannot encode is rejected first."""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from quota.kafka.kept_client import KeptClient
from quota.kafka.target.task import Task
from quota.kafka.topics.topic_admin import Topic, describe_topics
from quota.records.decision import TopicDecision
from quota.records.request import Operation, TopicMutation

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

_MAX_STRING_BYTES = 32_767
"""The longest string of Kafka's protocol; a longer one breaks the connection, for all calls that share it."""

_NO_SUCH_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})


class TopicCalls:
    """Calls without retries; the error of a topic is returned, not raised."""

    def __init__(self, config: Mapping[str, str | float]) -> None:
        """Create a client with librdkafka's configuration."""
        self._admin = KeptClient(lambda: AdminClient(dict(config)))

    def describe(self, names: Iterable[str], seconds: float) -> tuple[dict[str, Topic], dict[str, KafkaError]]:
        """Return the topics that exist, and the errors of those that cannot be described."""
        legal = [name for name in dict.fromkeys(names) if _LEGAL_NAME.fullmatch(name)]
        topics, errors = describe_topics(self._admin, legal, seconds)
        return topics, {name: error for name, error in errors.items() if error.code() not in _NO_SUCH_TOPIC}

    def change(self, tasks: Sequence[Task], seconds: float) -> dict[str, KafkaError | None]:
        """Carry out tasks that fit into one call, and return the error of each topic, or None."""
        answers: dict[str, KafkaError | None] = {}
        for task in tasks:
            problem = _encoding_problem(task.topic)
            if problem is not None:
                answers[task.name] = KafkaError(KafkaError.TOPIC_EXCEPTION, problem)
        return answers | self._change([task for task in tasks if task.name not in answers], seconds)

    def _change(self, tasks: Sequence[Task], seconds: float) -> dict[str, KafkaError | None]:
        if not tasks:
            return {}
        admin = self._admin.client
        try:
            futures = _call(admin, tasks, seconds)
        except (ValueError, TypeError) as error:  # librdkafka rejects one of them without sending any
            if len(tasks) == 1:
                return {tasks[0].name: KafkaError(KafkaError.INVALID_REQUEST, str(error))}
            return {name: outcome for task in tasks for name, outcome in self._change([task], seconds).items()}
        errors = {name: _error_of(future) for name, future in futures.items()}
        for outcome in errors.values():
            self._admin.note(admin, outcome)
        return errors


def _call(admin: AdminClient, tasks: Sequence[Task], seconds: float) -> dict[str, Future[None]]:
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


def _error_of(future: Future[None]) -> KafkaError | None:
    try:
        future.result()
    except KafkaException as error:
        return cast("KafkaError", error.args[0])
    return None


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
