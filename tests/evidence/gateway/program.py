"""A program that is run on both sides, and what is known to differ in what it sees."""

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
"""The case of the observation of the topics in the end."""


class Unavailable(MutationQuotaError):
    """A program cannot be run on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference on purpose, and what each side sees of it."""

    name: str
    """The first column of docs/explanation/differences-from-kafka.md, without links."""
    kafka: str
    here: str
    told: bool = False
    """Whether the broker tells a throttle time, and the gateway none."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, or a client's library."""

    name: str
    about: str
    """What is run, and how, for the page."""
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
    """Makes what both sides need."""
    differences: dict[tuple[str, str], Difference] = field(default_factory=dict)
    """By case and step."""
    differing_topics: tuple[str, ...] = ()
    """Topics that one side alone has in the end, by those differences."""
    early_ms: float = 1500.0
    late_ms: float = 6000.0
    """By how much a request at the gateway may end before that at the broker, and after it for each request so far."""
    version: Callable[[], str] = lambda: ""
    """Returns the client and its version; called after it was played."""

    def run(self, on: Ground, first: int) -> tuple[list[Observation], list[Observation]]:
        """Run it on both sides at the same time, and return what was seen at the broker and at the gateway.

        Raises:
            Unavailable: It cannot be run here.
            MutationQuotaError: It failed, or the job or the gateway did.
        """
        self.prepare(on)
        with ThreadPoolExecutor(2) as pool:
            direct, gateway = pool.map(lambda side: self.play(on, side, first), on.sides)
        on.check()
        direct, gateway = [*direct, self._afterwards(on, on.direct)], [*gateway, self._afterwards(on, on.gateway)]
        delete_topics(on)
        return direct, gateway

    def _afterwards(self, on: Ground, side: Side) -> Observation:
        """Return the topics in the end; for a while the sides may differ, as metadata arrives late."""
        with suppress(AssertionError):  # the comparison tells
            until(lambda: self._topics(on, on.direct) == self._topics(on, on.gateway), _SETTLE_SECONDS)
        topics = self._topics(on, side)
        named = ", ".join(f"{name} {count}" for name, count in topics.items())
        return Observation(EVERYTHING, "the topics in the end", f"{len(topics)} topics", 0.0, 0.0, detail=named)

    def _topics(self, on: Ground, side: Side) -> dict[str, int]:
        found = topics_of(on, side)
        return {name: count for name, count in found.items() if name not in self.differing_topics}
