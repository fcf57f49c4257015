"""The health of services that run a loop: the applier, the observer of request logs, and the push of quotas."""

import time
from collections.abc import Callable
from typing import Protocol

from jobs.metrics.health.probe import STARTING, Answer, Health, unless_stalled


class LoopStats(Protocol):
    """The counts of a service that runs a loop."""

    looped_at: float
    """The time when the loop last ran, on the monotonic clock [s]; 0 before the first time."""
    waits_for: str
    """The reason why it waits for a cluster that does not respond; empty if it does not wait."""


class LoopHealth(Health):
    """Checks the loop of a service. Waiting for a cluster counts as progress, because a restart would not help."""

    def __init__(
        self, stats: LoopStats, missing: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start checking.

        Args:
            stats: the counts of the service.
            missing: returns what the service needs and does not have; empty if nothing is missing.
            clock: the clock of `looped_at`.
        """
        self._stats = stats
        self._missing = missing
        self._clock = clock

    def live(self) -> Answer:
        """Return whether the loop makes progress."""
        if not self._stats.looped_at:
            return Answer(True, STARTING)
        if self._stats.waits_for:
            return Answer(True, f"it waits: {self._stats.waits_for}")
        silence = self._clock() - self._stats.looped_at
        return unless_stalled(silence, "it has made no progress", "it makes progress")

    def ready(self) -> Answer:
        """Return whether nothing is missing and the service's cluster responds."""
        alive = self.live()
        if not alive.ok:
            return alive
        if self._stats.waits_for:
            return Answer(False, f"it waits: {self._stats.waits_for}")
        missing = STARTING if not self._stats.looped_at else self._missing()
        return Answer(not missing, missing or "it is ready")
