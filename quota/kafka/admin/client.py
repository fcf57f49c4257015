"""`QuotaAdminClient`: confluent-kafka's AdminClient, with each change of topics decided first (KIP-599, KIP-219)."""

from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from quota.client.conversation import CallOptions
from quota.kafka.admin.costs import created, deleted, grown, takes_default
from quota.kafka.admin.dispatcher import Dispatcher, Futures
from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.kafka.admin.options import ClientOptions
from quota.records.request import Operation, TopicMutation

__all__ = ["QuotaAdminClient", "ThrottlingQuotaExceededError"]


class QuotaAdminClient(AdminClient):
    """An AdminClient whose `create_topics`, `create_partitions` and `delete_topics` keep to the quotas.

    Each sends one request to the request topic, waits for its decision, and returns a dict of futures by topic. A
    future ends with None once the topic is changed, with `ThrottlingQuotaExceededError` if the quota did not allow
    it, or with a `KafkaException` that has the cluster's own message. All other methods are those of AdminClient.

    With `retry_on_quota_violation`, the default as in Kafka's own client, the topics that are refused are asked for
    again once the throttle time is over, until the time limit. After a throttle nothing is sent before its time is
    over, by any thread. Share one client among threads: two do not know of each other's throttles.

    Beside librdkafka's settings it takes `default.api.timeout.ms` (60,000), and any setting of the project, as in
    `mutation.quota.client.user`. Those of the section `client` say who carries out what is admitted, and what to do
    when nothing is heard.
    """

    def __init__(self, conf: dict[str, Any] | ClientOptions | None = None, **kwargs: Any) -> None:  # noqa: ANN401 as AdminClient's
        """Connect, as AdminClient is told to by its configuration.

        Raises:
            BadInput: the configuration is not usable.
            ClusterError: the cluster that decides does not answer, or lacks the topics.
        """
        options = conf if isinstance(conf, ClientOptions) else ClientOptions.of({**(conf or {}), **kwargs})
        super().__init__(options.target)
        self._dispatcher = Dispatcher(options)
        self._default: int | None = None

    @property
    def proceeded_without_decision(self) -> int:
        """Requests that were gone on with although no decision came: only where `client.when_silent` is open."""
        return self._dispatcher.proceeded

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
            new_topics: topics to create.
            request_timeout: the time limit in seconds; `default.api.timeout.ms` by default.
            validate_only: only have it checked, which costs nothing.
            retry_on_quota_violation: ask again for what is refused, within the time limit.
            operation_timeout: taken as AdminClient takes it, and not needed: a future ends when the topic is there.

        Returns:
            A future a topic, by its name.
        """

        def topics(seconds: float) -> list[TopicMutation]:
            default = self._default_partitions(seconds) if any(takes_default(each) for each in new_topics) else 0
            return [created(topic, default) for topic in new_topics]

        return self._dispatcher.ask(
            CallOptions(Operation.CREATE_TOPICS, validate_only, retry_on_quota_violation),
            [topic.topic for topic in new_topics],
            topics,
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
        """Grow topics; arguments and futures as those of `create_topics`."""

        def topics(seconds: float) -> list[TopicMutation]:
            current = self._dispatcher.target.partitions([topic.topic for topic in new_partitions], seconds)
            return [grown(topic, current) for topic in new_partitions]

        return self._dispatcher.ask(
            CallOptions(Operation.CREATE_PARTITIONS, validate_only, retry_on_quota_violation),
            [topic.topic for topic in new_partitions],
            topics,
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
        """Delete topics; arguments and futures as those of `create_topics`."""

        def asked(seconds: float) -> list[TopicMutation]:
            current = self._dispatcher.target.partitions(topics, seconds)
            return [deleted(name, current) for name in topics]

        return self._dispatcher.ask(
            CallOptions(Operation.DELETE_TOPICS, retry_on_quota_violation=retry_on_quota_violation),
            topics,
            asked,
            request_timeout,
        )

    def close(self, *, wait: bool = True) -> None:
        """Let go of all connections, once all calls have ended.

        Args:
            wait: for the calls under way, each within its time limit; otherwise their futures fail now.
        """
        self._dispatcher.close(wait_for_calls=wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=kind is None)

    def _default_partitions(self, seconds: float) -> int:
        """What a topic gets that names no number of partitions: asked once."""
        if self._default is None:
            broker = next(iter(self.list_topics(timeout=seconds).brokers))
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            (found,) = self.describe_configs([resource], request_timeout=seconds).values()
            self._default = int(found.result()["num.partitions"].value)
        return self._default
