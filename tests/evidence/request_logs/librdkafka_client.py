"""librdkafka's admin client, which uses older versions of requests than Kafka's own."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.evidence.request_logs.calls import Answer, Call, Operation, Topic, TopicAnswer

_SECONDS = 60


class LibrdkafkaClient:
    """An admin client that gets throttle times through a callback."""

    kind = "librdkafka"

    def __init__(self, config: Mapping[str, str], principal: str = "User:ANONYMOUS") -> None:
        self.principal = principal
        self.client_id: str | None = config["client.id"]
        self._throttles: list[float] = []
        throttling = {"throttle_cb": lambda event: self._throttles.append(event.throttle_time), "log_level": 2}
        self._admin = AdminClient({**config, **throttling})
        self._admin.list_topics(timeout=_SECONDS)

    def ask(self, call: Call) -> Answer:
        """Send a request, and wait for the answer."""
        send: Mapping[Operation, Callable[[], dict[str, Future[None]]]] = {
            Operation.CREATE: lambda: self._admin.create_topics(
                [_new_topic(each) for each in call.topics], validate_only=call.validate_only
            ),
            Operation.GROW: lambda: self._admin.create_partitions(
                [NewPartitions(each.name, each.asked) for each in call.topics], validate_only=call.validate_only
            ),
            Operation.DELETE: lambda: self._admin.delete_topics([each.name for each in call.topics]),
        }
        sent = _now()
        topics = tuple(_outcome(name, future) for name, future in send[call.operation]().items())
        answered = _now()
        self._admin.poll(1)  # calls throttle_cb
        throttle = max(self._throttles, default=None)
        self._throttles.clear()
        return Answer(sent, answered, topics, None if throttle is None else round(throttle * 1000))


def _new_topic(topic: Topic) -> NewTopic:
    if topic.assignments is not None:
        return NewTopic(topic.name, len(topic.assignments), replica_assignment=topic.assignments)
    return NewTopic(topic.name, topic.asked or -1, topic.replication or -1)


def _outcome(name: str, future: "Future[None]") -> TopicAnswer:
    try:
        future.result(_SECONDS)
    except KafkaException as failed:
        return TopicAnswer(name, failed.args[0].code(), failed.args[0].str())
    return TopicAnswer(name, 0)


def _now() -> int:
    return round(time.time() * 1000)
