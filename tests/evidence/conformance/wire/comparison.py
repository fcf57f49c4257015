"""The comparison of the codec with Kafka's generated classes, over all messages and versions.

- Messages that the codec writes must be read by Kafka to the last byte, and written back as the same bytes.
- Random messages that Kafka writes must be written back by the codec as the same bytes.
- A message read in one version must be written in another as the same bytes, or rejected by both. The same holds for a
  message without values, whose fields all have their defaults.
- Broken bytes that Kafka rejects must be rejected by the codec. What Kafka reads, the codec must read as the same
  message, or reject for a reason in `STRICTER`.

The content of a message is compared in the form of Kafka's JSON.
"""

import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quota.wire.message_codec import Message, MessageCodec
from quota.wire.primitives import Malformed, Unwritable
from quota.wire.schemas import Schema, Struct, Versions, struct_of
from tests.evidence.conformance.bucket.comparison import MismatchError
from tests.evidence.conformance.wire.oracle import Oracle, Parsed, Rejected
from tests.support.wire.messages import as_json, random_message
from tests.support.wire.mutations import mutated

STRICTER = {
    "not UTF-8": "Kafka replaces what is not UTF-8 in a string",
    "above 2^31 - 1": "Kafka takes a varint above 2^31 - 1 for a negative number, and most of those for null",
    "comes after tag": "Kafka takes tags in any order, and the last of two that are the same",
    "not as long as it claims": "Kafka does not look at the size of a tagged field that it knows",
}
"""Reasons to reject what Kafka reads, by words of the error: another reader might see another message."""


@dataclass(slots=True)
class Tally:
    """Counts of the comparison, of messages."""

    written: int = 0
    """Written by the codec, and equal."""
    made: int = 0
    """Written by Kafka, and equal."""
    rewritten: int = 0
    """Read in one version and written in another, and equal."""
    not_carried: int = 0
    """Read in one version, and in another rejected by both."""
    both_read: int = 0
    """Broken, and read by both as the same message."""
    both_rejected: int = 0
    stricter: Counter[str] = field(default_factory=Counter)
    """Broken, and rejected by the codec alone, by the key in `STRICTER`."""
    kinds: set[tuple[str, int]] = field(default_factory=set)
    """The messages and versions that were compared."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One message in one version."""

    name: str
    version: int
    struct: Struct
    codec: MessageCodec

    def __str__(self) -> str:
        return str(self.codec)


def kinds(schemas: Mapping[str, Schema]) -> list[Kind]:
    """Return all messages in all versions, those of controllers and unstable versions too."""
    all_kinds = []
    for name, schema in sorted(schemas.items()):
        versions = Versions.parse(schema["validVersions"])
        all_kinds += [
            Kind(name, version, struct_of(schema, version), MessageCodec(schema, version))
            for version in range(versions.first, versions.last + 1)
        ]
    return all_kinds


class Comparison:
    """Compares messages of the kinds in turn, from a seed."""

    def __init__(self, oracle: Oracle, compared: list[Kind], seed: int) -> None:
        self._oracle = oracle
        self._kinds = compared
        self._chance = random.Random(seed)
        self.tally = Tally()

    def compare_written(self, count: int) -> None:
        """Compare messages that the codec writes."""
        for kind in self._in_turn(count):
            message = random_message(self._chance, kind.struct)
            data = kind.codec.write(message)
            self._compare(kind, data, self._parse(kind, data))
            self.tally.written += 1

    def compare_made(self, count: int) -> None:
        """Compare random messages that Kafka writes."""
        for kind in self._in_turn(count):
            data = self._oracle.random(kind.name, kind.version, self._chance.randrange(2**60))
            self._compare(kind, data, self._parse(kind, data))
            self.tally.made += 1

    def compare_defaults(self) -> None:
        """Compare messages without values, one in each version."""
        for kind in self._kinds:
            self._compare_written(kind, b"", {}, self._oracle.empty(kind.name, kind.version))

    def compare_rewritten(self, count: int) -> None:
        """Compare messages read in one version and written in another."""
        versions: dict[str, list[Kind]] = defaultdict(list)
        for kind in self._kinds:
            versions[kind.name].append(kind)
        for kind in self._in_turn(count):
            other = self._chance.choice(versions[kind.name])
            data = kind.codec.write(random_message(self._chance, kind.struct))
            answer = self._oracle.rewrite(kind.name, kind.version, data, other.version)
            self._compare_written(other, data, kind.codec.read(data), answer)

    def compare_broken(self, count: int) -> None:
        """Compare messages that were broken."""
        other = b""
        for kind in self._in_turn(count):
            whole = kind.codec.write(random_message(self._chance, kind.struct))
            data, other = mutated(self._chance, whole, other), whole
            answer = self._oracle.parse(kind.name, kind.version, data)
            try:
                kind.codec.read(data)
            except Malformed as error:
                self._rejected(kind, data, answer, str(error))
                continue
            if isinstance(answer, Rejected):
                raise _mismatch(kind, data, f"is read, and Kafka rejects it: {answer.error}")
            self._compare(kind, data[: answer.length], answer, canonical=False)
            self.tally.both_read += 1

    def _in_turn(self, count: int) -> Iterator[Kind]:
        for kind in itertools.islice(itertools.cycle(self._kinds), count):
            self.tally.kinds.add((kind.name, kind.version))
            yield kind

    def _parse(self, kind: Kind, data: bytes) -> Parsed:
        answer = self._oracle.parse(kind.name, kind.version, data)
        if isinstance(answer, Rejected):
            raise _mismatch(kind, data, f"is rejected by Kafka: {answer.error}")
        return answer

    def _compare(self, kind: Kind, data: bytes, kafka: Parsed, *, canonical: bool = True) -> None:
        """Compare bytes that end where Kafka's reader does."""
        try:
            message = kind.codec.read(data)
        except Malformed as error:
            raise _mismatch(kind, data, f"is rejected: {error}") from None
        if kafka.length != len(data):
            raise _mismatch(kind, data, f"is read by Kafka to {kafka.length}")
        if _text(kafka.json) != _text(as_json(kind.struct, message)):
            raise _mismatch(kind, data, f"is {message}, and to Kafka {kafka.json}")
        written = kind.codec.write(message)
        if written != kafka.written or (canonical and written != data):
            raise _mismatch(kind, data, f"is written as {written.hex()}, and by Kafka as {kafka.written.hex()}")
        if data and _is_read(kind, data[:-1]):
            raise _mismatch(kind, data, "is read without its last byte")

    def _compare_written(self, kind: Kind, data: bytes, message: Message, kafka: bytes | Rejected) -> None:
        try:
            written: bytes | Rejected = kind.codec.write(message)
        except Unwritable as error:
            written = Rejected(str(error))
        if isinstance(written, Rejected) and isinstance(kafka, Rejected):
            self.tally.not_carried += 1
        elif written == kafka:
            self.tally.rewritten += 1
        else:
            raise _mismatch(kind, data, f"is written as {written!r}, and by Kafka as {kafka!r}")

    def _rejected(self, kind: Kind, data: bytes, answer: Parsed | Rejected, error: str) -> None:
        if isinstance(answer, Rejected):
            self.tally.both_rejected += 1
            return
        reason = next((reason for reason in STRICTER if reason in error), None)
        if reason is None:
            raise _mismatch(kind, data, f"is rejected ({error}), and Kafka reads {answer.json}")
        self.tally.stricter[reason] += 1


def _is_read(kind: Kind, data: bytes) -> bool:
    try:
        kind.codec.read(data)
    except Malformed:
        return False
    return True


def _text(value: Any) -> str:
    """Return JSON as text, in which NaN is equal to itself."""
    return json.dumps(value, sort_keys=True)


def _mismatch(kind: Kind, data: bytes, reason: str) -> MismatchError:
    return MismatchError(f"{kind} {data.hex()} {reason}")
