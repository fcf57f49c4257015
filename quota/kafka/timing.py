"""Time limits and intervals, by the monotonic clock."""

import time


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


class Every:
    """An interval: true the first time, and then once per interval."""

    def __init__(self, seconds: float) -> None:
        """Be due at once, and then every `seconds` seconds."""
        self._seconds = seconds
        self._due_at = float("-inf")

    def is_due(self) -> bool:
        """Return whether the interval is over, and start the next one if it is."""
        now = time.monotonic()
        if now < self._due_at:
            return False
        self._due_at = now + self._seconds
        return True
