"""Records that were removed from their topics before a query has read them."""

import logging
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicPartition

from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.clients import ends, reason, tail
from quota.settings.model import Settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets of a partition that nobody can read any more: from `first`, up to and without `end`."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from offset {self.first} to {self.end - 1}"


def check_gaps(settings: Settings, query: str, positions: list[TopicPartition], *, fail: bool) -> None:
    """Look whether everything is still there that a query has not read yet.

    Args:
        settings: the settings.
        query: the query's name, which is the section of its settings, too.
        positions: how far it has come.
        fail: whether something missing is an error, or a warning.

    Raises:
        MutationQuotaError: something is missing; says what, and how to go on without it.
        ClusterError: the cluster does not answer in time.
    """
    gaps = _gaps(settings, query, positions)
    if not gaps:
        return
    lost = f"{sum(gap.end - gap.first for gap in gaps)} records were removed before {query} read them: " + ", ".join(
        str(gap) for gap in gaps
    )
    if fail:
        raise MutationQuotaError(
            f"{lost}; they cannot be brought back: to go on behind them, start once with "
            f"--set {query}.fail_on_data_loss=false; to have none removed so early, raise retention.ms of the topic"
        )
    _log.warning("%s; it goes on behind them", lost)


def _gaps(settings: Settings, query: str, positions: list[TopicPartition]) -> list[Gap]:
    if not positions:
        return []
    seconds = settings.kafka.timeout_seconds
    consumer = tail(settings.kafka.connection, "mutation-quota-gaps")
    try:
        firsts = [ends(consumer, position, seconds)[0] for position in positions]
    except KafkaException as error:
        where = f"the topics of {query} at {settings.kafka.bootstrap_servers}"
        raise ClusterError(f"cannot look where {where} begin: {reason(error)}") from None
    finally:
        consumer.close()
    return [
        Gap(position.topic, position.partition, position.offset, first)
        for position, first in zip(positions, firsts, strict=True)
        if first > position.offset
    ]
