"""What all Kafka clients of this project share."""

from confluent_kafka import KafkaError, KafkaException


def reason(error: KafkaException | KafkaError) -> str:
    """What went wrong, as a person reads it."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
