"""The current time, time limits, pauses and intervals by the monotonic clock, and the heartbeat of a loop."""

import random
import time
from dataclasses import dataclass

HOUR_MS = 3_600_000


def now_ms() -> int:
    """Return the current time [epoch ms]."""
    return time.time_ns() // 1_000_000


def now_monotonic_ms() -> int:
    """Return the time of the monotonic clock [ms]."""
    return time.monotonic_ns() // 1_000_000


class Deadline:
    """A moment in the future that several waits share."""

    def __init__(self, seconds: float) -> None:
        """Start a time limit of `seconds` from now."""
        self._at = time.monotonic() + seconds

    @property
    def has_passed(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._at

    def left(self, at_least: float = 0.0) -> float:
        """Return the seconds that remain, never fewer than `at_least`."""
        return max(self._at - time.monotonic(), at_least)


class Backoff:
    """The pauses between attempts: each may be twice as long as the one before, and half of it is left to chance."""

    def __init__(self, first_seconds: float = 0.1, longest_seconds: float = 1.0) -> None:
        self._seconds = first_seconds
        self._longest = longest_seconds

    def next(self) -> float:
        """Return the next pause [s]."""
        seconds, self._seconds = self._seconds, min(2 * self._seconds, self._longest)
        return random.uniform(seconds / 2, seconds)  # noqa: S311 it keeps no secret


class Every:
    """A timer that is due once per interval."""

    def __init__(self, seconds: float, *, at_once: bool = True) -> None:
        """Start the first interval; the timer is due at once or only at its end."""
        self._seconds = seconds
        self._due_at = float("-inf") if at_once else time.monotonic() + seconds

    def is_due(self) -> bool:
        """Return whether the timer is due, and start the next interval if it is."""
        now = time.monotonic()
        if now < self._due_at:
            return False
        self._due_at = now + self._seconds
        return True


@dataclass(slots=True)
class LoopStats:
    """The counts of a program that is a loop since it started; one thread writes them, and others may read."""

    looped_at: float = 0.0
    """The time at which its loop last ran, by the monotonic clock [s]; 0 before the first time."""
