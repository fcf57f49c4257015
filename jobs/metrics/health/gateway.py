"""The health of a gateway."""

import time

from jobs.metrics.health.probe import STARTING, STOPPING, Answer, Health
from quota.gateway.stats import GatewayStats

_MAX_LOOP_SECONDS = 10.0
"""The event loop runs five times per second; after this time without a run it counts as hanging [s]."""


class GatewayHealth(Health):
    """Checks a gateway by its counts."""

    def __init__(self, stats: GatewayStats) -> None:
        self._stats = stats

    def live(self) -> Answer:
        """Return whether the event loop runs."""
        if not self._stats.looped_at:
            return Answer(True, STARTING)
        silence = time.monotonic() - self._stats.looped_at
        if silence > _MAX_LOOP_SECONDS:
            return Answer(False, f"the event loop has not run for {silence:.0f} s")
        return Answer(True, "the event loop runs")

    def ready(self) -> Answer:
        """Return whether new connections are accepted and a broker responds.

        It is ready without decisions, too, because it still forwards everything except mutations.
        """
        alive = self.live()
        if not alive.ok:
            return alive
        if not self._stats.is_serving:
            return Answer(False, STOPPING if self._stats.looped_at else STARTING)
        if self._stats.broker_failure:
            return Answer(False, f"no broker responds: {self._stats.broker_failure}")
        return Answer(True, "it accepts connections, and a broker responds")
