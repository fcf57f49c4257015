"""Detects records that retention has removed from a topic before a query read them."""

import logging

from confluent_kafka import TopicPartition

from quota.errors import MutationQuotaError
from quota.kafka.clients import cluster_errors
from quota.kafka.reading import make_consumer, offset_range
from quota.settings import Settings
from quota.text import plural

_log = logging.getLogger(__name__)


def check_gaps(settings: Settings, query: str, positions: list[TopicPartition]) -> None:
    """Check that all records that a query, which the message names, has not read yet still exist."""
    gaps = _gaps(settings, query, positions)
    if not gaps:
        return
    count = sum(first - position.offset for position, first in gaps)
    removed = ", ".join(
        f"{position.topic}-{position.partition} from offset {position.offset} to {first - 1}"
        for position, first in gaps
    )
    were, them = ("was", "it") if count == 1 else ("were", "them")
    lost = f"{plural(count, 'record')} {were} removed before {query} read {them}: {removed}"
    if settings.spark.fail_on_data_loss:
        raise MutationQuotaError(
            f"{lost}; to continue after {them}, start once with --set spark.fail_on_data_loss=false; "
            "to prevent this, raise retention.ms of the topic"
        )
    _log.warning("%s; continuing after %s", lost, them)


def _gaps(settings: Settings, query: str, positions: list[TopicPartition]) -> list[tuple[TopicPartition, int]]:
    """Return the positions whose records were removed, with the first offset that still exists."""
    if not positions:
        return []
    connection, seconds = settings.kafka.connection, settings.kafka.timeout_seconds
    consumer = make_consumer(connection, "mutation-quota-gaps")
    try:
        with cluster_errors(f"read the log start offsets of the topics of {query} at {connection}", connection):
            firsts = [offset_range(consumer, position, seconds)[0] for position in positions]
    finally:
        consumer.close()
    return [(position, first) for position, first in zip(positions, firsts, strict=True) if first > position.offset]
