"""A program that runs on both sides, and the listed differences in its observations."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from quota.errors import MutationQuotaError
from tests.evidence.gateway.ground import Ground, delete_topics, topics_of
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.sides import Side
from tests.support.waiting import until

_SETTLE_SECONDS = 20

EVERYTHING = "all cases"
"""Name of the case that observes the topics at the end."""


class Unavailable(MutationQuotaError):
    """A program cannot be run on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An intended difference, and the observation of it on each side."""

    name: str
    """The first column of docs/explanation/differences-from-kafka.md, without links."""
    kafka: str
    here: str
    throttle: bool = False
    """Whether the broker reports a throttle time and the gateway does not."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, or a client library."""

    name: str
    about: str
    """The setup of the program, for the page."""
    users: int
    """Number of users that it takes on each side."""
    play: Callable[[Ground, Side, int], list[Observation]]
    """Plays a side, given the number of its first user.

    Raises:
        Unavailable: It cannot be run here.
    """
    quick: bool = False
    """Whether it is part of the short form."""
    prepare: Callable[[Ground], None] = lambda _: None
    """Prepares what both sides need."""
    differences: dict[tuple[str, str], Difference] = field(default_factory=dict)
    """Listed differences by case and step."""
    differing_topics: tuple[str, ...] = ()
    """Topics that only one side has at the end, because of those differences."""
    early_ms: float = 1500.0
    late_ms: float = 6000.0
    """How much earlier than at the broker a request may end at the gateway, and how much later per request so far."""
    version: Callable[[], str] = lambda: ""
    """Returns the client's name and version; called after the program was played."""

    def run(self, on: Ground, first: int) -> tuple[list[Observation], list[Observation]]:
        """Run it on both sides at the same time, and return its observations at the broker and at the gateway."""
        self.prepare(on)
        with ThreadPoolExecutor(2) as pool:
            direct, gateway = pool.map(lambda side: self.play(on, side, first), on.sides)
        on.check()
        direct, gateway = [*direct, self._afterwards(on, on.direct)], [*gateway, self._afterwards(on, on.gateway)]
        delete_topics(on)
        return direct, gateway

    def _afterwards(self, on: Ground, side: Side) -> Observation:
        """Return the topics at the end; for a while the sides may differ, because metadata arrives late."""
        with suppress(AssertionError):  # the comparison reports it
            until(lambda: self._topics(on, on.direct) == self._topics(on, on.gateway), _SETTLE_SECONDS)
        topics = self._topics(on, side)
        named = ", ".join(f"{name} {count}" for name, count in topics.items())
        return Observation(EVERYTHING, "the topics at the end", f"{len(topics)} topics", 0.0, 0.0, detail=named)

    def _topics(self, on: Ground, side: Side) -> dict[str, int]:
        found = topics_of(on, side)
        return {name: count for name, count in found.items() if name not in self.differing_topics}
