"""How long decisions took, counted by how long."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

BOUNDS_MS = (50, 100, 200, 300, 500, 750, 1000, 2000, 5000, 10_000, 30_000, 60_000)


class Latencies:
    """A histogram: how many were at most so long. Times in ms."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self.total_ms = 0

    def add(self, latency_ms: int) -> None:
        """Count one; a clock that is behind makes none shorter than nothing."""
        latency_ms = max(0, latency_ms)
        self._counts[bisect_left(BOUNDS_MS, latency_ms)] += 1
        self.total_ms += latency_ms

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Each bound, the last one infinite, and how many were not above it."""
        return zip((*BOUNDS_MS, float("inf")), accumulate(self._counts), strict=True)
