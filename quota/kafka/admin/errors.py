"""Kafka's error 89 for applications."""

from confluent_kafka import KafkaError, KafkaException


class ThrottlingQuotaExceededError(KafkaException):
    """A topic was refused because its client has exceeded its mutation quota (KIP-599).

    Attributes:
        throttle_time_ms: the remaining throttle time in milliseconds, after which the topic can be requested again.
        retryable: always true.
    """

    retryable = True

    def __init__(self, name: str, throttle_time_ms: int) -> None:
        """Create the error of a topic, with the remaining throttle time."""
        message = f"The throttling quota has been exceeded: try topic {name} again in {throttle_time_ms} ms."
        super().__init__(KafkaError(KafkaError.THROTTLING_QUOTA_EXCEEDED, message, retriable=True))
        self.throttle_time_ms = throttle_time_ms
