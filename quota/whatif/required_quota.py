"""The quota that recorded requests of a tenant require: KIP-599's bucket, solved for Q.

Before a charge, a bucket of B = Q * S * W that is full at first holds the minimum, over all intervals that end at the
charge, of B + Q * length minus the charges in the interval:

    K = min over stretches of Q * (length + S * W) - charged

So K >= 0 if Q is at least the maximum of charged / (length + S * W). With time on the x axis and mutations on the y
axis that is the steepest line from the mutations charged at the beginning of a stretch to those charged at its end,
S * W later. The beginnings that can be on such a line are on the lower convex hull of all beginnings, and the steepest
slope only grows. So each beginning is added once and removed once, as requests come.
"""

from collections import deque
from collections.abc import Sequence

from quota.records.quota_log import Window


class RequiredQuota:
    """The quota that the requests of one bucket require, in the bucket's order; computed in integers."""

    def __init__(self, window: Window) -> None:
        """Start without requests; the window turns the quota into a burst."""
        self._window_ms = window.total_ms
        self._before_last = _SteepestLine()
        self._after_last = _SteepestLine()
        self._now: int | None = None
        self.charged = 0
        self.largest = 0
        self.largest_topic = 0

    def add(self, timestamp: int, costs: Sequence[int]) -> None:
        """Add the next request; `costs` are the mutations of each topic that is charged if admitted.

        A timestamp (epoch ms) that is earlier than the last counts as the last, as it does in a bucket.
        """
        if not costs:
            return
        now = self._now = timestamp if self._now is None else max(timestamp, self._now)
        before_last, total = sum(costs[:-1]), sum(costs)
        for steepest, charged in ((self._before_last, before_last), (self._after_last, total)):
            steepest.add_beginning(now, self.charged)
            steepest.add_end(now + self._window_ms, self.charged + charged)
        self.charged += total
        self.largest = max(self.largest, total)
        self.largest_topic = max(self.largest_topic, *costs)

    @property
    def no_rejection(self) -> float:
        """The smallest quota that rejects no topic: K >= 0 before each topic [mutations/s].

        A single topic may overdraw the bucket without limit, so a single topic requires 0.
        """
        return self._before_last.rate

    @property
    def no_debt(self) -> float:
        """The smallest quota under which the bucket is never in debt: K >= 0 after each topic [mutations/s]."""
        return self._after_last.rate


class _SteepestLine:
    """The steepest line from any beginning to a later end; points are (ms, mutations), and neither decreases."""

    def __init__(self) -> None:
        self._hull: deque[tuple[int, int]] = deque()  # lower and convex; its edges are steeper than the line so far
        self._rise, self._run = 0, 1

    @property
    def rate(self) -> float:
        """The slope [mutations/s]."""
        return self._rise / self._run * 1000

    def add_beginning(self, x: int, y: int) -> None:
        hull = self._hull
        if hull and hull[-1][0] == x:  # at the same moment, a line from more mutations is never steeper
            return
        while len(hull) > 1 and not _turns_up(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
        while len(hull) > 1 and (hull[1][1] - hull[0][1]) * self._run <= self._rise * (hull[1][0] - hull[0][0]):
            hull.popleft()

    def add_end(self, x: int, y: int) -> None:
        hull = self._hull
        rise, run = y - hull[0][1], x - hull[0][0]
        if rise * self._run <= self._rise * run:
            return
        while len(hull) > 1 and (y - hull[1][1]) * run >= rise * (x - hull[1][0]):
            hull.popleft()
            rise, run = y - hull[0][1], x - hull[0][0]
        self._rise, self._run = rise, run


def _turns_up(first: tuple[int, int], second: tuple[int, int], third: tuple[int, int]) -> bool:
    return (second[1] - first[1]) * (third[0] - second[0]) < (third[1] - second[1]) * (second[0] - first[0])
