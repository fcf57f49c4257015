"""How large a quota has to be for a tenant's recorded requests: KIP-599's bucket the other way round.

A bucket of B = Q * S * W that is full at first holds, before a charge, what is left of B + Q * length over the worst of
all stretches of time that end there:

    K = min over stretches of Q * (length + S * W) - charged

So K >= 0 holds where Q is at least the largest charged / (length + S * W). With time to the right and mutations upwards
that is the steepest line from what was charged when a stretch begins to what is charged when it ends, S * W later.
Beginnings that can be on such a line lie on the lower convex hull of all of them, and rates found so far only grow: so
each beginning is added and dropped once, as requests come.
"""

from collections import deque
from collections.abc import Sequence

from quota.algorithms.bucket import Window


class RequiredQuota:
    """What the requests of one bucket need, in the bucket's order; all in whole numbers until it is asked for."""

    def __init__(self, window: Window) -> None:
        """Nothing was asked for yet.

        Args:
            window: S and W.
        """
        self._window_ms = window.total_ms
        self._refusal = _Steepest()
        self._debt = _Steepest()
        self._now: int | None = None
        self.charged = 0
        """Mutations so far."""
        self.largest = 0
        """Mutations of the largest request."""

    def add(self, timestamp: int, charges: Sequence[int]) -> None:
        """The next request.

        Args:
            timestamp: epoch ms; an earlier one than the last counts as that, as it does for a bucket.
            charges: mutations of each topic that is charged (`quota.whatif.recorded.RecordedDecision.charges`).
        """
        if not charges:
            return
        now = self._now = timestamp if self._now is None else max(timestamp, self._now)
        before_last, together = sum(charges[:-1]), sum(charges)
        for steepest, charged in ((self._refusal, before_last), (self._debt, together)):
            steepest.begin(now, self.charged)
            steepest.end(now + self._window_ms, self.charged + charged)
        self.charged += together
        self.largest = max(self.largest, together)

    @property
    def rate(self) -> float:
        """The smallest quota by which no topic is refused, mutations/s: before each of them K >= 0.

        That is all that the bucket asks for, which one topic may overdraw without limit: for a single topic it is 0.
        """
        return self._refusal.rate

    @property
    def load(self) -> float:
        """The smallest quota by which the bucket is never in debt, mutations/s: after each topic, too, K >= 0."""
        return self._debt.rate


class _Steepest:
    """The steepest line from any beginning to a later end; of (ms, mutations), which never go back."""

    def __init__(self) -> None:
        self._hull: deque[tuple[int, int]] = deque()  # lower and convex; steeper than the line so far
        self._rise, self._run = 0, 1

    @property
    def rate(self) -> float:
        """How steep, in mutations a second."""
        return self._rise / self._run * 1000

    def begin(self, x: int, y: int) -> None:
        hull = self._hull
        if hull and hull[-1][0] == x:  # what begins at the same moment with more behind it is never steeper
            return
        while len(hull) > 1 and not _turns_up(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
        while len(hull) > 1 and (hull[1][1] - hull[0][1]) * self._run <= self._rise * (hull[1][0] - hull[0][0]):
            hull.popleft()

    def end(self, x: int, y: int) -> None:
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
