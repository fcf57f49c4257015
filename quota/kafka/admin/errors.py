"""Kafka's error 89 for applications."""

from confluent_kafka import KafkaError, KafkaException

from quota.records.decision import Decision
from quota.text import format_duration


class ThrottlingQuotaExceededError(KafkaException):
    """A topic was rejected because its client has exceeded its mutation quota (KIP-599).

    Attributes:
        throttle_time_ms: the remaining throttle time in milliseconds, after which the topic can be requested again.
        decision_id: the id of the decision that rejected it, which `mutation-quota explain` takes; None if the topic
            was never requested, because of an earlier throttle.
        retry_at: the end of the throttle time by that decision [epoch ms]; None without one.
        retryable: always true.
    """

    retryable = True

    def __init__(self, name: str, throttle_time_ms: int, decision: Decision | None = None) -> None:
        """Create the error of a topic, with the remaining throttle time and the decision that rejected it."""
        message = (
            f"The throttling quota has been exceeded: try topic {name} again in {format_duration(throttle_time_ms)}."
        )
        super().__init__(KafkaError(KafkaError.THROTTLING_QUOTA_EXCEEDED, message, retriable=True))
        self.throttle_time_ms = throttle_time_ms
        self.decision_id = decision.decision_id if decision else None
        self.retry_at = decision.retry_at if decision else None
