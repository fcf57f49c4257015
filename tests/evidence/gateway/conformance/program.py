"""A program that runs on both sides, its observations, and the listed differences in them."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from quota.errors import MutationQuotaError
from tests.evidence.gateway.conformance.sides import Side, Sides

CONNECT = "connect"
"""Name of a step before the first one that is charged."""

_BEGIN_SECONDS = 0.15
"""The time between the beginnings of two cases."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A request's outcome. Times are ms of one clock for all observations of a case."""

    case: str
    step: str
    seen: str
    """The outcome in words, without times and names of the side, so that equal outcomes have equal texts."""
    sent: float
    received: float
    throttle_ms: int | None = None
    """The throttle time; None if the program cannot see it."""
    detail: str = ""
    """Further parts of the outcome, which are compared but not shown."""


Observations = tuple[list[Observation], list[Observation]]
"""Those at the broker, and those at the gateway."""


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
    users: int
    """Number of users that it takes on each side."""
    play: Callable[[Sides, int], Observations] | None = None
    """Plays both sides at the same time, given the number of its first user.

    Raises:
        Unavailable: It cannot be run here.
        MutationQuotaError: It failed.
    """
    main: str = ""
    """Its class instead, if it is in Java."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Numbers of partitions of the topics that must exist on each side."""
    differences: Mapping[tuple[str, str], Difference] = field(default_factory=dict)
    """Listed differences by case and step."""
    differing_topics: tuple[str, ...] = ()
    """Topics that only one side has at the end, because of those differences."""
    version: Callable[[], str] = lambda: ""
    """Returns the client's version; called after the program was played."""


def on_both(
    cases: Callable[[Sides, Side], list[Callable[[str], list[Observation]]]],
) -> Callable[[Sides, int], Observations]:
    """Return a program's `play` that runs all cases of both sides, each with the name of its own user.

    The cases overlap, but do not begin at the same moment: a controller carries out one request at a time.
    """

    def begin(case: Callable[[str], list[Observation]], number: int, user: str) -> list[Observation]:
        time.sleep(number * _BEGIN_SECONDS)
        return case(user)

    def play(pair: Sides, first: int) -> Observations:
        played = [cases(pair, side) for side in pair.both]
        with ThreadPoolExecutor(sum(map(len, played))) as pool:
            running = [
                [pool.submit(begin, case, number, side.user(first + number)) for number, case in enumerate(own)]
                for side, own in zip(pair.both, played, strict=True)
            ]
            direct, gateway = ([seen for case in own for seen in case.result()] for own in running)
        return direct, gateway

    return play
