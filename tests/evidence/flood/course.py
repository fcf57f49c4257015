"""The course of a flood: quiet and flooded phases in turns, and what came of the good requests in each."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from quota.errors import MutationQuotaError
from quota.settings.model import Settings
from tests.evidence.flood.garbage import SMALL, Pour
from tests.evidence.flood.good import Good

_CATCH_UP_SECONDS = 600.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Phase:
    """What happened; times in seconds."""

    name: str
    garbage: int
    garbage_bytes: int
    seconds: float
    """From the first bad record to the last, or of the quiet."""
    waits: Sequence[float]
    """Of the good requests that were sent meanwhile, in order."""
    caught_up: float
    """From the last bad record until no good request waited any more."""

    def wait(self, share: float) -> float:
        """A percentile of the waits."""
        return self.waits[min(len(self.waits) - 1, int(share * len(self.waits)))]


def floods(seconds: float, most: int) -> dict[str, Pour]:
    """What is poured in, by name: at most so many small records at once."""
    rates = {f"small, {rate:,}/s": Pour(SMALL, most, seconds, rate) for rate in (1000, 5000, 20_000)}
    return {
        **rates,
        "small, full speed": Pour(SMALL, most, seconds),
        "huge keys, full speed": Pour(("huge keys",), most // 20, seconds),
        "100 KB, full speed": Pour(("100 KB",), most // 100, seconds),
        "1 MB, full speed": Pour(("1 MB of text", "1 MB of zeros", "over the limit"), most // 400, seconds),
        "1 MB, compressed": Pour(("1 MB of text",), most // 125, seconds, compression="zstd"),
    }


def run_course(
    settings: Settings, good: Good, course: dict[str, Pour], seconds: float, check: Callable[[], None]
) -> Iterator[Phase]:
    """Quiet, and each flood with a quiet after it; each phase as it is over.

    Args:
        settings: the deployment.
        good: at work.
        course: the floods.
        seconds: of each quiet.
        check: raises if a job has ended.
    """
    yield _quiet(good, seconds, check)
    for name, what in course.items():
        yield _flood(settings, good, name, what, check)
        yield _quiet(good, seconds, check)


def caught_up(good: Good, check: Callable[[], None], until: float) -> float:
    """Wait until what was sent before a moment is decided; seconds since then.

    Raises:
        MutationQuotaError: in vain.
    """
    while good.unheard(until):
        check()
        if time.monotonic() - until > _CATCH_UP_SECONDS:
            raise MutationQuotaError(f"{good.unheard(until)} good requests wait for ever")
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - until


def _quiet(good: Good, seconds: float, check: Callable[[], None]) -> Phase:
    begun = time.monotonic()
    time.sleep(seconds)
    ended = time.monotonic()
    late = caught_up(good, check, ended)
    return Phase("quiet", 0, 0, ended - begun, good.waits(begun, ended), late)


def _flood(settings: Settings, good: Good, name: str, what: Pour, check: Callable[[], None]) -> Phase:
    program = [
        sys.executable,
        "-m",
        "tests.evidence.flood.garbage",
        settings.kafka.bootstrap_servers,
        settings.topics.requests,
    ]
    options = [",".join(what.kinds), "--count", str(what.count), "--seconds", str(what.seconds)]
    options += ["--compression", what.compression]
    options += [] if what.rate is None else ["--rate", str(what.rate)]
    begun = time.monotonic()
    out = subprocess.run([*program, *options], check=True, stdout=subprocess.PIPE, text=True).stdout
    ended = time.monotonic()
    sent, size, took = out.split()
    begun = ended - float(took)
    late = caught_up(good, check, ended)
    return Phase(name, int(sent), int(size), float(took), good.waits(begun, ended), late)
