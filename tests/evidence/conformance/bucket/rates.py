"""Kafka's own rate metric, in a separate JVM (`Rates.java`), and random charges for it."""

import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from quota.records.quota_log import Window
from tests.support.java_source import java_command

_WINDOWS = (Window(), Window(1, 1), Window(2, 1), Window(10, 2), Window(100, 1), Window(3, 30))
_WAITS_MS = (0, 1, 300, 999, 1000, 1001, 2000, 9999, 60_000)
_MAX_CHARGE = 5000


@dataclass(frozen=True, slots=True)
class Stream:
    """Charges of one metric by time: epoch ms, and whole mutations, so that sums are exact."""

    window: Window
    charges: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        lines = [f"rate {self.window.num} {self.window.size_seconds}"]
        return "\n".join([*lines, *(f"{at} {cost}" for at, cost in self.charges), ""])


def streams(seed: int, count: int) -> Iterator[Stream]:
    """Yield streams with charges at once, at the edges of windows, and after long pauses."""
    chance = random.Random(seed)
    for _ in range(count):
        window, now, charges = chance.choice(_WINDOWS), chance.randrange(10**12), []
        for _ in range(chance.randint(1, 200)):
            now += chance.choice([*_WAITS_MS, chance.randrange(3000), window.total_ms - 1, window.total_ms])
            charges.append((now, chance.randint(0, _MAX_CHARGE)))
        yield Stream(window, tuple(charges))


def kafkas_rates(jars: Path, requested: Sequence[Stream]) -> Iterator[list[float]]:
    """Yield, for each stream, the rates (mutations/s) that Kafka's class measures at its charges."""
    command = java_command(Path(__file__).with_name("Rates.java"), jars)
    done = subprocess.run(command, input="".join(map(str, requested)), capture_output=True, text=True, check=True)
    lines = iter(done.stdout.splitlines())
    for stream in requested:
        yield [float(next(lines)) for _ in stream.charges]
