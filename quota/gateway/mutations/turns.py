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
    """The turns for each of some names. A turn for several names comes when it is the first for all of them."""

    def __init__(self) -> None:
        self._turns: dict[str, OrderedDict[int, None]] = {}

    @contextmanager
    def take(self, names: Iterable[str]) -> Iterator[Ahead]:
        """Take a turn behind all earlier ones for these names, for the block.

        It is taken for all of them at once, so that no two turns wait for each other.
        """
        taken: dict[str, int] = {}
        for name in names:
            if name not in taken:
                turns = self._turns.setdefault(name, OrderedDict())
                taken[name] = next(reversed(turns), 0) + 1
                turns[taken[name]] = None
        try:
            yield lambda: max((number - next(iter(self._turns[name])) for name, number in taken.items()), default=0)
        finally:  # also when the client has left
            for name, number in taken.items():
                del self._turns[name][number]
                if not self._turns[name]:
                    del self._turns[name]


def wait(ahead: Ahead, until: Callable[[], bool] = lambda: False) -> Generator[Pause, None, bool]:
    """Wait for a turn, or `until` something else; return whether another one was before it."""
    pause, longest = _PAUSES_MS
    waited = False
    while (others := ahead()) > 0 and not until():
        waited = True
        yield Pause(min(others * pause, longest))
    return waited
