"""The course of a flood: quiet and flooded phases in turns, and the good requests in each."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from quota.errors import MutationQuotaError
from quota.settings import Settings
from tests.evidence.flood.good import Good
from tests.evidence.flood.invalid import SMALL, Pour

_CATCH_UP_SECONDS = 600.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase; times in seconds."""

    name: str
    invalid: int
    invalid_bytes: int
    seconds: float
    """Time from the first invalid record to the last, or the length of a quiet phase."""
    waits: Sequence[float]
    """Waits of the good requests that were sent in the phase, sorted."""
    caught_up: float
    """Time from the last invalid record until no good request waited."""

    def wait(self, share: float) -> float:
        """Return the percentile of the waits at a share from 0 to 1."""
        return self.waits[min(len(self.waits) - 1, int(share * len(self.waits)))]


def floods(seconds: float, max_records: int) -> dict[str, Pour]:
    """Return the floods by name, each of at most `max_records` small records, or fewer large ones."""
    rates = {f"small, {rate:,}/s": Pour(SMALL, max_records, seconds, rate) for rate in (1000, 5000, 20_000)}
    return {
        **rates,
        "small, full speed": Pour(SMALL, max_records, seconds),
        "huge keys, full speed": Pour(("huge keys",), max_records // 20, seconds),
        "100 KB, full speed": Pour(("100 KB",), max_records // 100, seconds),
        "1 MB, full speed": Pour(("1 MB of text", "1 MB of zeros", "over the limit"), max_records // 400, seconds),
        "1 MB, compressed": Pour(("1 MB of text",), max_records // 125, seconds, compression="zstd"),
    }


def run_course(
    settings: Settings, good: Good, course: dict[str, Pour], seconds: float, check: Callable[[], None]
) -> Iterator[Phase]:
    """Yield a quiet phase, then each flood with a quiet phase after it.

    Args:
        settings: The deployment.
        good: The good requests, which are being sent.
        course: The floods by name.
        seconds: Length of a quiet phase.
        check: Raises if a job has ended.
    """
    yield _quiet(good, seconds, check)
    for name, what in course.items():
        yield _flood(settings, good, name, what, check)
        yield _quiet(good, seconds, check)


def caught_up(good: Good, check: Callable[[], None], until: float) -> float:
    """Wait until the requests sent before `until` are decided, and return the seconds since then.

    Raises:
        MutationQuotaError: They are not decided in time.
    """
    while good.undecided(until):
        check()
        if time.monotonic() - until > _CATCH_UP_SECONDS:
            raise MutationQuotaError(f"{good.undecided(until)} good requests have no decision")
        time.sleep(_POLL_SECONDS)
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
        "tests.evidence.flood.invalid",
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
