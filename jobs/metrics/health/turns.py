"""The health of services that are a loop: the applier, the follower of request logs, and the pushing of quotas."""

import time
from collections.abc import Callable
from typing import Protocol

from jobs.metrics.health.probe import STARTING, Answer, Health


class TurningStats(Protocol):
    """Counts of a service that is a loop."""

    turned_at: float
    """The last turn of its loop, by the monotonic clock [s]; 0 before the first one."""
    waits_for: str
    """Why it waits for a cluster that does not answer; empty if it does not wait."""


class TurnHealth(Health):
    """A service goes on while its loop turns, or while it waits for a cluster, which a new start would not help."""

    def __init__(
        self,
        stats: TurningStats,
        stalled_seconds: float,
        missing: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin.

        Args:
            stats: the counts of the service.
            stalled_seconds: the time that a turn may take.
            missing: returns what the service lacks to do its work; empty if nothing.
            clock: the clock of `turned_at`.
        """
        self._stats = stats
        self._stalled_seconds = stalled_seconds
        self._missing = missing
        self._clock = clock

    def live(self) -> Answer:
        """Return whether the loop turns."""
        if not self._stats.turned_at:
            return Answer(True, STARTING)
        if self._stats.waits_for:
            return Answer(True, f"it waits: {self._stats.waits_for}")
        silence = self._clock() - self._stats.turned_at
        if silence > self._stalled_seconds:
            return Answer(
                False,
                f"it has made no progress for {silence:.0f} s; the limit is {self._stalled_seconds:.0f} s "
                "(health.stalled_seconds)",
            )
        return Answer(True, "it makes progress")

    def ready(self) -> Answer:
        """Return whether the service lacks nothing, and its cluster answers."""
        alive = self.live()
        if not alive.ok:
            return alive
        if self._stats.waits_for:
            return Answer(False, f"it waits: {self._stats.waits_for}")
        missing = STARTING if not self._stats.turned_at else self._missing()
        return Answer(not missing, missing or "it works")
