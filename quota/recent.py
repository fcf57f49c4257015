"""What was done to topics in the last seconds: a broker that is asked for them may not know of it yet."""

from collections.abc import Mapping

STALE_SECONDS = 5.0


class RecentChanges:
    """How many partitions topics were left with, for a few seconds; the caller gives the time (seconds)."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[int | None, float]] = {}

    def note(self, name: str, partitions: int | None, now: float) -> None:
        """A topic was created or grown to so many partitions, or deleted (None)."""
        self._left.pop(name, None)
        self._left[name] = partitions, now
        while self._left:  # the oldest stand first
            oldest = next(iter(self._left))
            if now - self._left[oldest][1] <= STALE_SECONDS:
                break
            del self._left[oldest]

    def over(self, told: Mapping[str, int], names: list[str], now: float) -> dict[str, int]:
        """What a broker told of topics, and where it is behind, what is known better."""
        found = {name: told[name] for name in names if name in told}
        for name in names:
            left, at = self._left.get(name, (None, 0.0))
            if name not in self._left or now - at > STALE_SECONDS:
                continue
            if left is None:
                found.pop(name, None)
            else:
                found[name] = max(left, found.get(name, 0))
        return found
