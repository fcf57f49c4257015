"""Kafka's own controller mutation quota, in a separate JVM (`Oracle.java`)."""

import subprocess
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.evidence.conformance.bucket.sequences import START, Sequence, Try
from tests.support.java_source import JavaProgram

CLASSES = (
    "org.apache.kafka.server.quota.ControllerMutationQuotaManager",
    "org.apache.kafka.server.quota.StrictControllerMutationQuota",
    "org.apache.kafka.server.quota.PermissiveControllerMutationQuota",
    "org.apache.kafka.common.metrics.Metrics",
    "org.apache.kafka.common.metrics.Sensor",
    "org.apache.kafka.common.metrics.stats.TokenBucket",
)
"""Kafka's classes that are compared: those of a KRaft controller, and those in which they store a bucket."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Kafka's answer to a step at `at` (epoch ms); a try also has the tokens before and after it."""

    at: int
    before: float = 0.0
    after: float = 0.0
    throttle_ms: int = 0
    verdicts: str = ""
    """A letter a topic: A admitted, R rejected, F rejected for a debt within rounding, and admitted without it."""

    @property
    def admitted(self) -> list[bool]:
        """Whether each topic is admitted, without debts within rounding."""
        return [verdict != "R" for verdict in self.verdicts]


class Oracle(JavaProgram):
    """Plays sequences: writes a whole sequence as lines, and reads its answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process)
        self.version = self.read()

    def plain(self, sequence: Sequence) -> list[Answer]:
        """Play a sequence on unmodified Kafka."""
        return self._play(sequence, "plain")

    def modelled(self, sequence: Sequence) -> list[Answer]:
        """Play a sequence without the differences that change the outcome of later steps (see Oracle.java)."""
        return self._play(sequence, "modelled")

    def _play(self, sequence: Sequence, how: str) -> list[Answer]:
        window = sequence.window
        header = f"{window.num} {window.size_seconds} {START} {how}"
        self.write(header, *map(str, sequence.steps), "end")
        return [_answer(self.read(), isinstance(step, Try)) for step in sequence.steps]


def kafka_oracle(jars: Path) -> AbstractContextManager[Oracle]:
    """Run Kafka's classes from a folder of the broker's jars, inside the block."""
    return Oracle.running(Path(__file__).with_name("Oracle.java"), jars)


def _answer(line: str, is_try: bool) -> Answer:
    if not is_try:
        return Answer(int(line))
    at, before, after, throttle_ms, verdicts = line.split(" ")
    return Answer(int(at), float(before), float(after), int(throttle_ms), verdicts)
