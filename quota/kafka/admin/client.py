"""`QuotaAdminClient`: an AdminClient with a decision before each change of topics (KIP-599, KIP-219)."""

import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from quota.kafka.admin.calls import CallOptions, FoundTopics, Futures, UnknownCost, kafka_error
from quota.kafka.admin.client_options import ClientOptions, check_no_gateway
from quota.kafka.admin.dispatcher import Dispatcher
from quota.kafka.librdkafka import reason
from quota.kafka.reading import read_broker_configs
from quota.records.request import Operation, TopicMutation

_CLUSTER_DEFAULT = -1
_UNKNOWN_TOPIC = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


class QuotaAdminClient(AdminClient):
    """An AdminClient whose `create_topics`, `create_partitions` and `delete_topics` obey the quotas.

    Each sends one request to the request topic, waits for its decision, and returns a dict of futures by topic. A
    future completes with None once the topic is changed, with `ThrottlingQuotaExceededError` if the quota rejected it,
    or with a `KafkaException` that has the cluster's own message; its `decision_id` is the id of the decision. All
    other methods are those of AdminClient.

    With `retry_on_quota_violation`, the default as in Kafka's own client, rejected topics are requested again after
    the throttle time, until the time limit. While the client is throttled, no thread sends a request. Share one
    client among threads: two clients do not know each other's throttle times. Its threads and connections end with
    `close`, or, as AdminClient's, with the last reference to it, after its pending calls.

    In addition to librdkafka's properties, it takes `default.api.timeout.ms` (60,000 ms), and every setting of this
    project, such as `mutation.quota.client.user`. It carries admitted mutations out itself, with the application's
    permissions. Without a decision nothing is changed, and the call fails.
    """

    def __init__(self, conf: dict[str, Any] | ClientOptions | None = None, **kwargs: Any) -> None:  # noqa: ANN401 as AdminClient's
        """Connect to the cluster whose topics are changed, and to the cluster that decides.

        Args:
            conf: librdkafka's properties, as for AdminClient, and settings of this project.
            kwargs: the same, by keyword.

        Raises:
            BadInput: the configuration is invalid, or a server is a gateway, which requests decisions itself.
            ClusterError: the cluster that decides does not answer, or its topics are missing.
        """
        options = conf if isinstance(conf, ClientOptions) else ClientOptions.from_config({**(conf or {}), **kwargs})
        check_no_gateway(options.target)
        super().__init__(options.target)
        self._target_config = options.target
        self._dispatcher = Dispatcher(options)
        weakref.finalize(self, self._dispatcher.abandon).atexit = False
        self._default: int | None = None

    def create_topics(  # type: ignore[override]
        self,
        new_topics: list[NewTopic],
        *,
        request_timeout: float | None = None,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
        operation_timeout: float | None = None,  # noqa: ARG002 as AdminClient's
    ) -> Futures:
        """Create topics.

        Args:
            new_topics: the topics to create.
            request_timeout: the time limit [s], at most 3,600; `default.api.timeout.ms` by default.
            validate_only: whether the request is only validated, which costs nothing.
            retry_on_quota_violation: whether rejected topics are requested again, within the time limit.
            operation_timeout: accepted for compatibility; a future completes when the topic exists.

        Returns:
            The future of each topic, by its name.

        Raises:
            ValueError: `request_timeout` is not above 0 and at most 3,600 seconds.
            RuntimeError: the client is closed.
        """

        def find(seconds: float) -> FoundTopics:
            default, problem = 0, None
            if any(_has_default_partitions(topic) for topic in new_topics):
                try:
                    default = self._default_partitions(seconds)
                except KafkaException as error:
                    problem = error
            return [
                UnknownCost(topic.topic, problem)
                if problem and _has_default_partitions(topic)
                else _creation(topic, default)
                for topic in new_topics
            ]

        return self._dispatcher.call(
            CallOptions(Operation.CREATE_TOPICS, validate_only, retry_on_quota_violation),
            [topic.topic for topic in new_topics],
            find,
            request_timeout,
        )

    def create_partitions(  # type: ignore[override]
        self,
        new_partitions: list[NewPartitions],
        *,
        request_timeout: float | None = None,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
        operation_timeout: float | None = None,  # noqa: ARG002 as AdminClient's
    ) -> Futures:
        """Add partitions to topics.

        Args:
            new_partitions: the topics, each with its new total number of partitions.
            request_timeout: the time limit [s], at most 3,600; `default.api.timeout.ms` by default.
            validate_only: whether the request is only validated, which costs nothing.
            retry_on_quota_violation: whether rejected topics are requested again, within the time limit.
            operation_timeout: accepted for compatibility; a future completes when the partitions exist.

        Returns:
            The future of each topic, by its name.

        Raises:
            ValueError: `request_timeout` is not above 0 and at most 3,600 seconds.
            RuntimeError: the client is closed.
        """
        return self._change(
            CallOptions(Operation.CREATE_PARTITIONS, validate_only, retry_on_quota_violation),
            [topic.topic for topic in new_partitions],
            lambda current: [_growth(topic, current) for topic in new_partitions],
            request_timeout,
        )

    def delete_topics(  # type: ignore[override]
        self,
        topics: list[str],
        *,
        request_timeout: float | None = None,
        retry_on_quota_violation: bool = True,
        operation_timeout: float | None = None,  # noqa: ARG002 as AdminClient's
    ) -> Futures:
        """Delete topics.

        Args:
            topics: the names of the topics.
            request_timeout: the time limit [s], at most 3,600; `default.api.timeout.ms` by default.
            retry_on_quota_violation: whether rejected topics are requested again, within the time limit.
            operation_timeout: accepted for compatibility; a future completes when the topic is deleted.

        Returns:
            The future of each topic, by its name.

        Raises:
            ValueError: `request_timeout` is not above 0 and at most 3,600 seconds.
            RuntimeError: the client is closed.
        """
        return self._change(
            CallOptions(Operation.DELETE_TOPICS, retry_on_quota_violation=retry_on_quota_violation),
            topics,
            lambda current: [TopicMutation(name, current.get(name, 0)) for name in topics],
            request_timeout,
        )

    def close(self, *, wait: bool = True) -> None:
        """Close all connections.

        Args:
            wait: whether to wait for pending calls, each within its time limit; otherwise their futures fail now.
        """
        self._dispatcher.close(wait_for_calls=wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=kind is None)

    def _change(
        self,
        options: CallOptions,
        names: list[str],
        mutations: Callable[[Mapping[str, int]], list[TopicMutation]],
        seconds: float | None,
    ) -> Futures:
        """Start a call on existing topics, whose costs depend on their current numbers of partitions."""

        def find(limit: float) -> FoundTopics:
            current, errors = self._dispatcher.target.partitions(names, limit)
            if options.operation is Operation.CREATE_PARTITIONS:  # its cost is the difference to what there is
                errors |= {name: _UNKNOWN_TOPIC for name in names if name not in current and name not in errors}
            return [
                UnknownCost(topic.name, KafkaException(errors[topic.name])) if topic.name in errors else topic
                for topic in mutations(current)
            ]

        return self._dispatcher.call(options, names, find, seconds)

    def _default_partitions(self, seconds: float) -> int:
        """Return the cluster's default number of partitions; it is requested once."""
        if self._default is None:
            try:
                self._default = int(read_broker_configs(AdminClient(self._target_config), seconds)["num.partitions"])
            except KafkaException as error:
                raise kafka_error(
                    error.args[0].code(),
                    f"the default number of partitions cannot be read: {reason(error).removesuffix('.')}; allow this "
                    "principal DescribeConfigs on the cluster, or give num_partitions",
                ) from None
        return self._default


def _has_default_partitions(topic: NewTopic) -> bool:
    return topic.num_partitions == _CLUSTER_DEFAULT and not topic.replica_assignment


def _creation(topic: NewTopic, default_partitions: int) -> TopicMutation:
    assignments = topic.replica_assignment or None
    partitions = default_partitions if _has_default_partitions(topic) else topic.num_partitions
    return TopicMutation(
        topic.topic,
        partitions if assignments is None else len(assignments),
        replication_factor=None if topic.replication_factor == _CLUSTER_DEFAULT else topic.replication_factor,
        assignments=assignments,
        configs={str(name): str(value) for name, value in topic.config.items()} if topic.config else None,
    )


def _growth(topic: NewPartitions, current: Mapping[str, int]) -> TopicMutation:
    return TopicMutation(
        topic.topic,
        max(0, topic.new_total_count - current.get(topic.topic, 0)),
        count=topic.new_total_count,
        assignments=topic.replica_assignment or None,
    )
