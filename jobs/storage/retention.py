"""Detects records that a topic has lost: removed before a query read them, or missing after what it has read."""

import logging
import time

from confluent_kafka import TopicPartition

from quota.errors import MutationQuotaError
from quota.kafka.librdkafka import cluster_errors
from quota.kafka.reading import make_consumer, offset_range
from quota.kafka.timing import Deadline
from quota.settings import Settings
from quota.text import plural

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2


def check_gaps(settings: Settings, query: str, positions: list[TopicPartition]) -> None:
    """Check that the topics still have what a query, which the messages name, has not read, and end after what it has.

    A partition that begins after the query's position is an error only if `spark.fail_on_data_loss` is set.
    """
    ranges = _ranges(settings, query, positions)
    for position, (_, end) in ranges:
        if end < position.offset:
            name = f"{position.topic}-{position.partition}"
            raise MutationQuotaError(
                f"{name} ends at offset {end}, but {query} has read it up to {position.offset}: a broker has lost "
                "records, or the topic was restored from a backup; its next records would get the ids of earlier "
                "ones, so start on another storage.root with new topics, as docs/how-to/operations/state.md describes"
            )
    gaps = [(position, first) for position, (first, _) in ranges if first > position.offset]
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


def _ranges(
    settings: Settings, query: str, positions: list[TopicPartition]
) -> list[tuple[TopicPartition, tuple[int, int]]]:
    """Return the positions, each with the first offset and the end of its partition."""
    if not positions:
        return []
    connection, seconds = settings.kafka.connection, settings.kafka.timeout_seconds
    consumer = make_consumer(connection, "mutation-quota-gaps")
    try:
        with cluster_errors(f"read the offsets of the topics of {query} at {connection}", connection):
            ranges = []
            for position in positions:
                deadline = Deadline(seconds)  # the high watermark of a new leader may lag for a moment
                while (bounds := offset_range(consumer, position, seconds))[1] < position.offset:
                    if deadline.has_passed:
                        break
                    time.sleep(_POLL_SECONDS)
                ranges.append((position, bounds))
            return ranges
    finally:
        consumer.close()
