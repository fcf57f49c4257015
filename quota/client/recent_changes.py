"""What was done to topics in the last seconds: a broker that is asked for them may not know of it yet."""

import threading
from collections.abc import Iterable, Mapping

STALE_SECONDS = 5.0


class RecentChanges:
    """How many partitions topics were left with, for a few seconds; the caller gives the time (seconds).

    Safe for threads.
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[int | None, float]] = {}
        self._lock = threading.Lock()

    def note(self, name: str, partitions: int | None, now: float) -> None:
        """A topic was created or grown to so many partitions, or deleted (None)."""
        with self._lock:
            self._left.pop(name, None)
            self._left[name] = partitions, now
            while now - next(iter(self._left.values()))[1] > STALE_SECONDS:  # the oldest stand first
                del self._left[next(iter(self._left))]

    def over(self, told: Mapping[str, int], names: Iterable[str], now: float) -> dict[str, int]:
        """What a broker told of topics, and where it is behind, what is known better."""
        names = set(names)
        found = {name: count for name, count in told.items() if name in names}
        with self._lock:
            known = {name: self._left[name] for name in names & self._left.keys()}
        for name, (left, at) in known.items():
            if now - at > STALE_SECONDS:
                continue
            if left is None:
                found.pop(name, None)
            else:
                found[name] = max(left, found.get(name, 0))
        return found
