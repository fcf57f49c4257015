"""The health of the dashboard. Probes need no token, so their answers contain no addresses and no topics."""

import time
from collections.abc import Callable
from typing import Protocol

from jobs.metrics.health.probe import STARTING, Answer, Health, unless_stalled


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

    looped_at: float
    """The time of its last progress, by the monotonic clock [s]."""


class FeedHealth(Health):
    """Checks the thread that reads the topics; the server itself runs if it answers."""

    def __init__(self, feed: Feed, stalled_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            feed: the thread that reads the topics.
            stalled_seconds: the longest time without progress.
            clock: the clock of `Feed.looped_at`.
        """
        self._feed = feed
        self._stalled_seconds = stalled_seconds
        self._clock = clock

    def live(self) -> Answer:
        """Return whether the thread makes progress, which includes attempts to reach Kafka."""
        silence = self._clock() - self._feed.looped_at
        return unless_stalled(
            silence, self._stalled_seconds, "the topics have not been read", "the topics are followed"
        )

    def ready(self) -> Answer:
        """Return whether the page is up to date: the topics were read, and Kafka answers."""
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
