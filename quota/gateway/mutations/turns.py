"""Turns: what may be done once at a time is done in the order in which it came."""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager

from quota.gateway.mutations.operations import Pause

_PAUSES_MS = (10, 500)
"""The pause before a channel looks again whether it is its turn, for each channel before it, and the longest one."""

Ahead = Callable[[], int]
"""Returns the number of those before a turn; 0 if it is its turn."""


class Turns:
    """The turns for each of some names. A turn for several names comes when it is the first for all of them.

    A turn ends with its time, so that a broker that does not answer holds up no longer than that.
    """

    def __init__(self) -> None:
        self._turns: dict[str, OrderedDict[int, int]] = {}
        """The end of the time of each call that runs or waits, by user and by the call's number."""

    @contextmanager
    def take(self, names: Iterable[str], ends_at: int, clock: Callable[[], int]) -> Iterator[Ahead]:
        """Take a turn behind all earlier ones for these names, for the block, at most until `ends_at` [epoch ms].

        It is taken for all of them at once, so that no two turns wait for each other.
        """
        taken: dict[str, tuple[OrderedDict[int, int], int]] = {}
        for name in names:
            if name not in taken:
                turns = self._turns.setdefault(name, OrderedDict())
                taken[name] = turns, next(reversed(turns), 0) + 1
                turns[taken[name][1]] = ends_at
        try:
            yield lambda: max((_ahead(turns, number, clock()) for turns, number in taken.values()), default=0)
        finally:  # also when the client has left
            for name, (turns, number) in taken.items():
                turns.pop(number, None)
                if not turns and self._turns.get(name) is turns:
                    del self._turns[name]


def _ahead(turns: OrderedDict[int, int], number: int, now: int) -> int:
    """Return how many turns are before one, without those whose time is over."""
    while (first := next(iter(turns), number)) < number and turns[first] <= now:
        del turns[first]
    return max(number - first, 0)


def wait(ahead: Ahead, left_ms: Callable[[], int]) -> Generator[Pause, None, bool]:
    """Wait for a turn while there is time left [ms]; return whether another one was before it."""
    pause, longest = _PAUSES_MS
    waited = False
    while (others := ahead()) > 0 and (left := left_ms()) > 0:
        waited = True
        yield Pause(min(others * pause, longest, left))
    return waited
