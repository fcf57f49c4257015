"""What all Kafka clients of this project share."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException


def client_config(bootstrap_servers: str, more: Mapping[str, str | float] | None = None) -> dict[str, str | float]:
    """librdkafka's settings for a cluster.

    Its own log stays quiet: what matters reaches the caller as an exception, with a sentence of ours.
    """
    return {"bootstrap.servers": bootstrap_servers, "log_level": 2, **(more or {})}


def reason(error: KafkaException | KafkaError) -> str:
    """What went wrong, as a person reads it."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return str(cause.str() if isinstance(cause, KafkaError) else cause)
