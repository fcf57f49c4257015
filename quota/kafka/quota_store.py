"""Setting quotas: a change is a record of the quota topic."""

import time

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quota import codec
from quota.change import QuotaRecord
from quota.errors import ClusterError
from quota.kafka.client import client_config, reason
from quota.settings import Settings


def set_quota(settings: Settings, record: QuotaRecord) -> int:
    """Write a change of a quota.

    Returns:
        The moment from which it holds, as the broker stamped it (epoch ms), or a later `effective_at`.

    Raises:
        ClusterError: the change was not acknowledged in time.
    """
    timeout_ms = round(settings.kafka.timeout_seconds * 1000)
    config: dict[str, str | float] = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": timeout_ms}
    producer = Producer(client_config(settings.kafka.bootstrap_servers, config))
    delivered: list[tuple[KafkaError | None, Message]] = []
    producer.produce(
        settings.topics.quotas,
        key=record.entity.key,
        value=codec.encode(record),
        on_delivery=lambda error, message: delivered.append((error, message)),
    )
    deadline = time.monotonic() + settings.kafka.timeout_seconds + 1
    while not delivered and time.monotonic() < deadline:
        producer.poll(0.1)
    if not delivered:
        raise ClusterError(f"no answer from Kafka at {settings.kafka.bootstrap_servers}: the quota may not be set")
    error, message = delivered[0]
    if error is not None:
        raise ClusterError(f"the quota is not set: {reason(KafkaException(error))}")
    return max(int(message.timestamp()[1]), record.effective_at or 0)
