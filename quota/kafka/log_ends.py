"""The present ends of partitions: one request for all of them, however many there are."""

from collections.abc import Collection
from functools import cached_property

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from quota.errors import ClusterError
from quota.kafka.clients import client_config, reason
from quota.settings.connection import Connection

Partition = tuple[str, int]

_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class EndOffsets:
    """Asks a cluster again and again."""

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        self._connection = connection
        self._timeout = timeout_seconds

    def of(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The offset behind the last record of each.

        Raises:
            ClusterError: the cluster does not tell in time.
        """
        if not partitions:
            return {}
        asked = {TopicPartition(*partition): _LATEST for partition in partitions}
        try:
            told = self._admin.list_offsets(asked, request_timeout=self._timeout)
            return {(each.topic, each.partition): future.result().offset for each, future in told.items()}
        except KafkaException as error:
            raise ClusterError(f"Kafka at {self._connection} does not tell where topics end: {reason(error)}") from None

    @cached_property
    def _admin(self) -> AdminClient:
        """Made when it is first asked: who reads no topic needs no cluster."""
        return AdminClient(client_config(self._connection))
