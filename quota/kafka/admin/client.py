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
    """confluent-kafka's AdminClient, with changes of topics that obey the mutation quotas (KIP-599).

    `create_topics`, `create_partitions` and `delete_topics` send one request to the request topic, wait for its
    decision, and change the admitted topics with the application's own permissions. A topic costs its partitions that
    are created, added or deleted, whatever its replication factor; what the cluster would refuse anyway costs nothing.
    Without a decision nothing is changed. All other methods are those of AdminClient, and no throttle delays them.

    Examples:
        >>> from confluent_kafka.admin import NewTopic
        >>> from quota.kafka.admin import QuotaAdminClient, ThrottlingQuotaExceededError
        >>> with QuotaAdminClient({"bootstrap.servers": "kafka-1:9092", "client.id": "app"}) as admin:
        ...     future = admin.create_topics([NewTopic("orders", 6)])["orders"]
        ...     try:
        ...         future.result()
        ...     except ThrottlingQuotaExceededError as error:
        ...         print(f"not created by {error.decision_id}: try again in {error.throttle_time_ms} ms")

    The configuration has librdkafka's properties, and these keys; any other setting of this project has the prefix
    `mutation.quota.` as well:

    | key | default | meaning |
    |---|---|---|
    | `bootstrap.servers` | required | the brokers of the cluster whose topics are changed; not a gateway |
    | `client.id` | `<none>` | the client-id that quotas apply to |
    | `default.api.timeout.ms` | 60000 | the time limit of a call, which includes throttle times |
    | `mutation.quota.client.user` | the login's, or `ANONYMOUS` | the user that quotas apply to |
    | `mutation.quota.kafka.bootstrap_servers` | `bootstrap.servers` | the cluster that decides, if it is another one |
    | `mutation.quota.kafka.timeout_seconds` | 5.0 | the time in which a cluster must answer a new client |
    | `mutation.quota.topics.requests` | `mutation-requests` | the request topic; likewise `decisions`, `dead_letters` |
    | `mutation.quota.topics.identity` | `payload` | `topic` if each user has their own request topic |

    The user is `sasl.username`, or the subject of the token (OAUTHBEARER); another login needs the key.

    Each of the three methods returns at once: a dict with a `TopicFuture` for each topic by its name, empty for no
    topics. A future has

    - the result None, if the topic is changed, or would be with `validate_only`;
    - `ThrottlingQuotaExceededError`, if the quota rejects the topic until the time limit, or once without retries;
    - KafkaException with the cluster's error, if the cluster refuses the change, or does not let the client find its
      cost: the default number of partitions needs the permission DescribeConfigs on the cluster;
    - KafkaException with `POLICY_VIOLATION`, if the topic costs more than the quota ever allows for one topic;
    - KafkaException with `INVALID_REQUEST`, if the call has the topic twice, or the request is invalid;
    - KafkaException with `_TIMED_OUT`, if there was no decision in time, and nothing will be changed; or if the topic
      was admitted and the cluster did not answer, and it may still be changed;
    - KafkaException with `_DESTROY`, if the client was closed before.

    With `retry_on_quota_violation`, the default as in Kafka's own client, only the rejected topics are requested again,
    after the throttle time. Without, they fail at once, with the throttle time. While a decision throttles the client,
    it requests nothing (KIP-219).

    A client may be shared by threads, and should be: two clients do not know each other's throttle times. It has some
    20 threads, most of them librdkafka's, and does not survive a `fork`. Callbacks of futures run on the one thread
    that carries on all calls, and must not wait. A future cannot be cancelled; `asyncio.wrap_future` makes one
    awaitable. Threads and connections end with `close`, at the end of a `with` block, or with the last reference to
    the client, after its pending calls.
    """

    def __init__(self, conf: dict[str, Any] | None = None, **kwargs: Any) -> None:  # noqa: ANN401 as AdminClient's
        """Connect to the cluster whose topics are changed, and to the cluster that decides.

        This waits up to 2 s for each server of the first, and up to `kafka.timeout_seconds` for the second.

        Args:
            conf: librdkafka's properties, as for AdminClient, and settings of this project.
            kwargs: the same, by keyword.

        Raises:
            BadInput: the configuration is invalid, or a server is a gateway, which requests decisions itself.
            ClusterError: the cluster that decides does not answer, or its topics are missing.
        """
        options = ClientOptions.from_config({**(conf or {}), **kwargs})
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
        """Close all connections; calls after it raise RuntimeError.

        Args:
            wait: whether to wait for pending calls, each within its time limit; otherwise their futures fail now.
        """
        self._dispatcher.close(wait_for_calls=wait)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client, after its pending calls unless the block has raised an error."""
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
