"""The health of the dashboard. Probes need no token, so the responses contain neither addresses nor topics."""

import time
from collections.abc import Callable
from typing import Protocol

from jobs.metrics.health.probe import STARTING, Answer, Health, unless_stalled


class Contact(Protocol):
    """Whether Kafka responds."""

    @property
    def state(self) -> str:
        """`starting`, `live` or `unreachable`."""


class Feed(Protocol):
    """The thread that reads the topics."""

    @property
    def contact(self) -> Contact:
        """Whether Kafka responds."""

    looped_at: float
    """The time of its last progress on the monotonic clock [s]."""


class FeedHealth(Health):
    """Checks the thread that reads the topics. The server itself is live if it responds."""

    def __init__(self, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
        """Start checking the thread that reads the topics, by the clock of its `looped_at`."""
        self._feed = feed
        self._clock = clock

    def live(self) -> Answer:
        """Return whether the thread makes progress, which includes attempts to reach Kafka."""
        silence = self._clock() - self._feed.looped_at
        return unless_stalled(silence, "the topics have not been read", "the topics are followed")

    def ready(self) -> Answer:
        """Return whether the page is up to date: the topics were read, and Kafka responds."""
        alive = self.live()
        if not alive.ok:
            return alive
        match self._feed.contact.state:
            case "live":
                return Answer(True, "the topics are read to their ends")
            case "starting":
                return Answer(False, STARTING)
            case _:
                return Answer(False, "Kafka cannot be reached; the page shows the reason")
