"""Dead letters, and sending them again."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
from confluent_kafka import KafkaException

from quota.admission.policy import Policy
from quota.admission.resolve import request_of
from quota.errors import BadInput, BadRecord, ClusterError
from quota.kafka.clients import reason
from quota.kafka.requests import RequestWriter
from quota.kafka.stored import read_topic
from quota.records import codec
from quota.records.decision import DeadLetter
from quota.records.record import Record, Source
from quota.settings.model import Settings

_decoder = msgspec.json.Decoder(DeadLetter)


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter and the record key that it came under."""

    key: bytes | None
    letter: DeadLetter
    at: int
    """The time of the bad record, or of its dead letter where that has none to be trusted (epoch ms)."""

    @property
    def letter_id(self) -> str:
        """Where the bad record stands: topic-partition-offset, as a decision's id."""
        return str(self.letter.source)


def read_dead_letters(settings: Settings) -> Iterator[StoredDeadLetter]:
    """The dead letters that their topic still has, each once.

    Raises:
        ClusterError: the cluster does not answer.
    """
    cluster, topic = settings.kafka.connection, settings.topics.dead_letters
    seen: set[Source] = set()
    try:
        for message in read_topic(cluster, topic, settings.kafka.timeout_seconds):
            try:
                letter = codec.decode(message.value(), _decoder)
            except BadRecord:
                continue  # the audit tells of what is none of ours
            if letter.source not in seen:  # a crash of the job may have written it twice
                seen.add(letter.source)
                at = message.timestamp()[1] if letter.timestamp is None else letter.timestamp
                yield StoredDeadLetter(message.key(), letter, at)
    except KafkaException as error:
        raise ClusterError(f"cannot read {topic} at {cluster}: {reason(error)}") from None


def check(letters: Iterable[tuple[StoredDeadLetter, bytes]], policy: Policy) -> None:
    """Check that records, mended or as they are, are requests now.

    Raises:
        BadInput: one of them is none.
    """
    for letter, value in letters:
        try:
            request_of(Record(letter.letter.source, 0, value), policy)
        except BadRecord as error:
            raise BadInput(f"{letter.letter_id} still is no request: {error}; give it mended by --value FILE") from None


def send(settings: Settings, letters: Iterable[tuple[StoredDeadLetter, bytes]]) -> None:
    """Send records again, each under its own record key, as new records of the topic that they came from.

    Raises:
        ClusterError: the cluster does not take them in time.
    """
    writer = RequestWriter(settings)
    for letter, value in letters:
        writer.send_bytes(letter.letter.source.topic, value, letter.key)
    writer.flush(settings.kafka.timeout_seconds)
