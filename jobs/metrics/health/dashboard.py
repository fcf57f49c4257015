"""The health of the dashboard. Probes need no token, so the answers name no address and no topic."""

import time
from collections.abc import Callable
from typing import Protocol

from jobs.metrics.health.probe import STARTING, Answer, Health


class Contact(Protocol):
    """Whether Kafka answers."""

    @property
    def state(self) -> str:
        """`starting`, `live` or `unreachable`."""


class Feed(Protocol):
    """The thread that reads the topics."""

    @property
    def contact(self) -> Contact:
        """Whether Kafka answers."""

    turned_at: float
    """The last time that it was seen to go on, by the monotonic clock [s]."""


class FeedHealth(Health):
    """Checks the thread that reads the topics; the server shows by its answer that it goes on."""

    def __init__(self, feed: Feed, stalled_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            feed: what reads the topics.
            stalled_seconds: the time that it may take without a sign of progress.
            clock: the clock of `Feed.turned_at`.
        """
        self._feed = feed
        self._stalled_seconds = stalled_seconds
        self._clock = clock

    def live(self) -> Answer:
        """Return whether the thread goes on; it does while it tries to reach Kafka."""
        silence = self._clock() - self._feed.turned_at
        if silence > self._stalled_seconds:
            return Answer(
                False,
                f"the topics have not been read for {silence:.0f} s; the limit is {self._stalled_seconds:.0f} s "
                "(health.stalled_seconds)",
            )
        return Answer(True, "the topics are followed")

    def ready(self) -> Answer:
        """Return whether the page shows what happens: the topics were read, and Kafka answers."""
        alive = self.live()
        if not alive.ok:
            return alive
        match self._feed.contact.state:
            case "live":
                return Answer(True, "the topics were read up to now")
            case "starting":
                return Answer(False, STARTING)
            case _:
                return Answer(False, "Kafka cannot be reached; the page says why")
