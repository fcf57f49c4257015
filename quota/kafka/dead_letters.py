"""Reading dead letters, and sending their records again."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from quota.admission.policy import Policy
from quota.admission.resolve import valid_request
from quota.errors import BadInput, BadRecord, ClusterError, interrupts_saying
from quota.kafka.librdkafka import cluster_errors
from quota.kafka.reading import Skipped, read_topic
from quota.kafka.requests_and_answers import RequestWriter
from quota.kafka.timing import now_ms
from quota.records.dead_letter import DeadLetter, read_dead_letter
from quota.records.record import Record, Source
from quota.records.request import MutationRequest
from quota.settings import Settings
from quota.text import plural

_CLOCKS_MS = 3_600_000
"""By how much the clocks of brokers may differ; what is read in vain is not listed."""

_BLOCK = 1024
"""The number of positions that one integer of a set represents."""


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter and its record key."""

    key: bytes | None
    letter: DeadLetter
    at: int
    """The timestamp of the invalid record, or of its dead letter if that one is not trusted (epoch ms)."""

    @property
    def letter_id(self) -> str:
        """The position of the invalid record as topic-partition-offset, like a decision's id."""
        return str(self.letter.source)


def read_dead_letters(settings: Settings, since: int | None = None) -> Generator[StoredDeadLetter, None, None]:
    """Yield each dead letter that is still in its topic, once; with `since` (epoch ms), none of much earlier records.

    A dead letter is written after its record, by the clock of another broker.
    """
    earliest = None if since is None else since - _CLOCKS_MS
    connection, topic = settings.kafka.connection, settings.topics.dead_letters
    seen = _Positions()
    skipped = Skipped("a dead letter")
    with cluster_errors(f"read {topic} at {connection}", connection):
        for message in read_topic(connection, topic, settings.kafka.timeout_seconds, since=earliest):
            try:
                letter = read_dead_letter(message.value())
            except BadRecord as error:
                skipped.add(message, error)
                continue
            if seen.add(letter.source):  # a crash of the job may have written it twice
                at = message.timestamp()[1] if letter.timestamp is None else letter.timestamp
                yield StoredDeadLetter(message.key(), letter, at)


class _Positions:
    """A set of positions; those of a flood, which are close to each other, need a few bits each."""

    def __init__(self) -> None:
        self._bits: dict[tuple[str, int, int], int] = {}

    def add(self, source: Source) -> bool:
        """Add a position; return whether it is new."""
        block, bit = divmod(source.offset, _BLOCK)
        key = source.topic, source.partition, block
        bits = self._bits.get(key, 0)
        self._bits[key] = bits | 1 << bit
        return not bits >> bit & 1


def valid_requests(letters: Iterable[tuple[StoredDeadLetter, bytes]], policy: Policy) -> list[MutationRequest]:
    """Return the requests in records, corrected or unchanged, which must be valid now."""
    requests = []
    for letter, value in letters:
        try:
            requests.append(valid_request(Record(letter.letter.source, now_ms(), value, letter.key), policy))
        except BadRecord as error:
            raise BadInput(
                f"{letter.letter_id} is still invalid: {error}; correct it in a file and use --value FILE"
            ) from None
    return requests


def send(settings: Settings, letters: Sequence[tuple[StoredDeadLetter, bytes]]) -> None:
    """Send records again, with their own keys, as new records of their topics."""
    writer = RequestWriter(settings)

    def sent() -> str:
        return f"{writer.acknowledged:,} of {plural(len(letters), 'request')} sent"

    try:
        with interrupts_saying(lambda: f"{sent()}, and others may be"):
            with suppress(ClusterError):  # nothing more is sent, and `flush` raises it, too
                for letter, value in letters:
                    writer.send_bytes(letter.letter.source.topic, value, letter.key)
            writer.flush(settings.kafka.timeout_seconds)
    except ClusterError as error:
        raise ClusterError(f"{sent()}: {error}") from None
