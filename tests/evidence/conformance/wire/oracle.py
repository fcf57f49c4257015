"""Kafka's generated classes of messages, in a separate JVM (`Oracle.java`)."""

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.support.java_source import JavaProgram


@dataclass(frozen=True, slots=True)
class Parsed:
    """A message that Kafka has read from bytes."""

    written: bytes
    """The message as Kafka writes it back."""
    length: int
    """Number of bytes that Kafka has read."""
    json: dict


@dataclass(frozen=True, slots=True)
class Rejected:
    """Kafka's error for bytes that it cannot read, or for a message that it cannot write."""

    error: str


class Oracle(JavaProgram):
    """Sends Kafka's classes one message at a time."""

    def parse(self, message: str, version: int, data: bytes) -> Parsed | Rejected:
        """Read bytes by the class of a message such as `CreateTopicsRequest`, and write them back."""
        answer = self._ask("parse", message, version, data.hex())
        if answer.startswith("!"):
            return Rejected(answer.removeprefix("! "))
        written, length, text = answer.split(" ", 2)
        return Parsed(bytes.fromhex(written), int(length), json.loads(text))

    def random(self, message: str, version: int, seed: int) -> bytes:
        """Return the bytes of a random message."""
        return bytes.fromhex(self._ask("random", message, version, seed))

    def rewrite(self, message: str, version: int, data: bytes, other: int) -> bytes | Rejected:
        """Read bytes, and write the message in another version."""
        return _written(self._ask("rewrite", message, version, data.hex(), other))

    def empty(self, message: str, version: int) -> bytes | Rejected:
        """Write a message without values: each field has its default."""
        return _written(self._ask("empty", message, version))

    def _ask(self, command: str, message: str, *values: int | str) -> str:
        name = f"{message}Data" if message.endswith(("Request", "Response", "Header")) else message
        self.write(" ".join([command, name, *map(str, values)]))
        return self.read()


def _written(answer: str) -> bytes | Rejected:
    return Rejected(answer.removeprefix("! ")) if answer.startswith("!") else bytes.fromhex(answer)


def kafka_oracle(jars: Path) -> AbstractContextManager[Oracle]:
    """Run Kafka's classes from a folder of the broker's jars, inside the block."""
    return Oracle.running(Path(__file__).with_name("Oracle.java"), jars)
