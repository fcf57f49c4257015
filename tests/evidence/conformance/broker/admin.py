"""Requests to a broker with its own quota: by Kafka's admin client, and by confluent-kafka, without error 89."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from quota.errors import ClusterError
from quota.records.request import Operation

_SECONDS = 30
_RATE = "controller_mutation_rate"
_THROTTLING = "org.apache.kafka.common.errors.ThrottlingQuotaExceededException"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of a request: its cost, and its new number of partitions if it grows."""

    name: str
    partitions: int
    count: int = 0


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """The admitted topics, the reported throttle time, and the times of request and answer (epoch ms)."""

    admitted: tuple[bool, ...]
    throttle_ms: int
    sent: float
    received: float


class JavaAdmin:
    """Kafka's own admin client, in Spark's JVM; one per request, because throttled connections are muted."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._java = spark._jvm  # noqa: SLF001 PySpark has no other way to its JVM
        self._kafka = self._java.org.apache.kafka
        self._address = address

    @property
    def version(self) -> str:
        """Version of the client."""
        return self._kafka.common.utils.AppInfoParser.getVersion()

    def set_quota(self, client_id: str, rate: float | None) -> None:
        """Set a client's rate (mutations/s), or remove it."""
        entity = self._kafka.common.quota.ClientQuotaEntity({"client-id": client_id})
        alteration = self._kafka.common.quota.ClientQuotaAlteration
        change = alteration(entity, [alteration.Op(_RATE, rate)])
        with closing(self._admin("conformance")) as admin:
            admin.alterClientQuotas([change]).all().get()

    def ask(
        self, client_id: str, operation: Operation, topics: Sequence[Topic], *, validate_only: bool = False
    ) -> BrokerAnswer:
        """Send one request, which is not retried when it is rejected."""
        with closing(self._admin(client_id)) as admin:
            sent = time.time() * 1000
            futures = self._send(admin, operation, topics, validate_only=validate_only)
            throttles = [_rejected_ms(futures[topic.name]) for topic in topics]
            received = time.time() * 1000
        return BrokerAnswer(tuple(ms is None for ms in throttles), max(ms or 0 for ms in throttles), sent, received)

    def _send(self, admin, operation: Operation, topics: Sequence[Topic], *, validate_only: bool):
        clients, optional = self._kafka.clients.admin, self._java.java.util.Optional
        if operation is Operation.CREATE_TOPICS:
            options = clients.CreateTopicsOptions().retryOnQuotaViolation(False).validateOnly(validate_only)
            new = [clients.NewTopic(topic.name, optional.of(topic.partitions), optional.empty()) for topic in topics]
            return admin.createTopics(new, options).values()
        if operation is Operation.CREATE_PARTITIONS:
            options = clients.CreatePartitionsOptions().retryOnQuotaViolation(False)
            grown = {topic.name: clients.NewPartitions.increaseTo(topic.count) for topic in topics}
            return admin.createPartitions(grown, options).values()
        options = clients.DeleteTopicsOptions().retryOnQuotaViolation(False)
        return admin.deleteTopics([topic.name for topic in topics], options).topicNameValues()

    def _admin(self, client_id: str):
        return self._kafka.clients.admin.Admin.create({"bootstrap.servers": self._address, "client.id": client_id})


def _rejected_ms(future) -> int | None:
    """Return the throttle time of a rejected topic; None if it was admitted."""
    try:
        future.get()
    except Py4JJavaError as failed:
        cause = failed.java_exception.getCause()
        if cause is None or cause.getClass().getName() != _THROTTLING:
            raise
        return cause.throttleTimeMs()
    return None


def ask_as_old_client(address: str, client_id: str, operation: Operation, topics: Sequence[Topic]) -> BrokerAnswer:
    """Send one request by confluent-kafka: it uses versions before error 89, and a callback gets the throttle time."""
    throttles: list[float] = []
    config = {"bootstrap.servers": address, "client.id": client_id}
    admin = AdminClient({**config, "throttle_cb": lambda event: throttles.append(event.throttle_time)})
    admin.list_topics(timeout=_SECONDS)  # connects
    send = {
        Operation.CREATE_TOPICS: lambda: admin.create_topics(
            [NewTopic(topic.name, topic.partitions) for topic in topics]
        ),
        Operation.CREATE_PARTITIONS: lambda: admin.create_partitions(
            [NewPartitions(topic.name, topic.count) for topic in topics]
        ),
        Operation.DELETE_TOPICS: lambda: admin.delete_topics([topic.name for topic in topics]),
    }[operation]
    sent = time.time() * 1000
    for future in send().values():
        future.result(_SECONDS)
    received = time.time() * 1000
    admin.poll(1)
    if len(throttles) > 1:
        raise ClusterError(f"{len(throttles)} throttle times of one request")
    return BrokerAnswer((True,) * len(topics), round(sum(throttles) * 1000), sent, received)
