"""Outcomes of topics: their futures, and the exceptions of these."""

from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException

from quota.client.call import NoAnswer, Throttled, TopicOutcome, Wait
from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.records.result import TopicResult


class TopicFuture(Future[None]):
    """The future of a topic's change; its result is None.

    Attributes:
        decision_id: the id of the last decision on the topic, which `mutation-quota explain` takes, once the future is
            done; None if there was no decision.
    """

    decision_id: str | None = None


def kafka_error(code: int, message: str) -> KafkaException:
    """Return an exception with one of Kafka's error codes."""
    return KafkaException(KafkaError(code, message))


def closed_error(name: str) -> KafkaException:
    """Return the exception of a topic whose client was closed."""
    return kafka_error(KafkaError._DESTROY, f"the client was closed before {name} was changed")  # noqa: SLF001


def outcome_error(outcome: TopicOutcome, servers: str) -> KafkaException | None:
    """Return the exception of a topic; None if its mutation was carried out.

    Args:
        outcome: the outcome of the topic.
        servers: the servers of the cluster that decides.
    """
    match outcome:
        case Throttled(name, throttle_time_ms, refusal):
            return ThrottlingQuotaExceededError(name, throttle_time_ms, refusal)
        case NoAnswer(name, Wait.DECISION):
            reason = f"no decision on topic {name} in time; is mutation-quota enforce running on {servers}?"
            return kafka_error(KafkaError._TIMED_OUT, f"{reason} The change will not be made later")  # noqa: SLF001
        case NoAnswer(name, Wait.RESULT):
            reason = f"topic {name} was admitted, but no result arrived in time"
            return kafka_error(KafkaError._TIMED_OUT, f"{reason}; it may still be carried out")  # noqa: SLF001
        case TopicResult(error_code=code, error_message=message) if code:
            return kafka_error(code, message or "")
        case _:
            return None
