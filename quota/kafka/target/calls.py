"""The calls of an AdminClient that change topics and look at them, with nothing that it cannot carry."""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from quota.client.task import Task
from quota.records.decision import TopicDecision
from quota.records.request import Operation, TopicMutation

_POSSIBLE = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Names that a topic can have."""

_MOST_BYTES = 32_767
"""Of a text in Kafka's protocol: a longer one breaks the connection, for all that share it."""

_NO_SUCH_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})


class TopicCalls:
    """One attempt each; what the cluster says of a topic is returned, not raised."""

    def __init__(self, config: Mapping[str, str | float]) -> None:
        """Take librdkafka's settings."""
        self._admin = AdminClient(dict(config))

    def partitions(self, names: Iterable[str], seconds: float) -> dict[str, int]:
        """How many partitions topics have; those that do not exist are left out.

        Raises:
            KafkaException: the cluster does not tell.
        """
        possible = [name for name in names if _POSSIBLE.fullmatch(name)]
        if not possible:
            return {}
        found = {}
        for name, future in self._admin.describe_topics(TopicCollection(possible), request_timeout=seconds).items():
            try:
                found[name] = len(future.result().partitions)
            except KafkaException as error:
                if error.args[0].code() not in _NO_SUCH_TOPIC:
                    raise
        return found

    def change(self, tasks: Sequence[Task], seconds: float) -> dict[str, KafkaError | None]:
        """Change topics by tasks that one call can take together: why not, for each, or None."""
        answers: dict[str, KafkaError | None] = {}
        for task in tasks:
            reason = _cannot_be_sent(task.topic)
            if reason is not None:
                answers[task.name] = KafkaError(KafkaError.TOPIC_EXCEPTION, reason)
        return answers | self._change([task for task in tasks if task.name not in answers], seconds)

    def _change(self, tasks: Sequence[Task], seconds: float) -> dict[str, KafkaError | None]:
        if not tasks:
            return {}
        try:
            futures = self._futures(tasks, seconds)
        except (ValueError, TypeError) as error:  # librdkafka would not even send one of them
            if len(tasks) == 1:
                return {tasks[0].name: KafkaError(KafkaError.INVALID_REQUEST, str(error))}
            return {name: each for task in tasks for name, each in self._change([task], seconds).items()}
        return {name: _error_of(future) for name, future in futures.items()}

    def _futures(self, tasks: Sequence[Task], seconds: float) -> dict[str, Future[None]]:
        options: dict[str, Any] = {"request_timeout": seconds, "operation_timeout": seconds}
        match tasks[0].operation:
            case Operation.DELETE_TOPICS:
                return self._admin.delete_topics([task.name for task in tasks], **options)
            case Operation.CREATE_TOPICS:
                options["validate_only"] = tasks[0].validate_only
                return self._admin.create_topics([_new_topic(task.topic) for task in tasks], **options)
            case Operation.CREATE_PARTITIONS:
                options["validate_only"] = tasks[0].validate_only
                return self._admin.create_partitions([_new_partitions(task.topic) for task in tasks], **options)


def _error_of(future: Future[None]) -> KafkaError | None:
    try:
        future.result()
    except KafkaException as error:
        return cast("KafkaError", error.args[0])
    return None


def _cannot_be_sent(topic: TopicMutation | TopicDecision) -> str | None:
    """Why a topic must not even be tried.

    librdkafka ends a text at a zero character: the name of another topic may stand before it.
    """
    configs = {} if topic.configs is msgspec.UNSET else topic.configs
    for text in (topic.name, *configs.keys(), *configs.values()):
        if "\0" in text:
            return f"a name, config or value has a zero character: {text[:100]!r}"
        if len(text.encode()) > _MOST_BYTES:
            return f"a name, config or value is longer than {_MOST_BYTES} bytes: {text[:100]!r}..."
    return None


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
