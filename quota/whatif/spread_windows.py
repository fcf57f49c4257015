"""Charges spread over earlier windows, as an earlier version of KIP-599 proposed for Kafka's `Rate`."""

import math

import msgspec

from quota.records.quota_log import Window


class SpreadWindows(msgspec.Struct, frozen=True):
    """S consecutive windows of W seconds; the newest is the current one.

    A charge fills the windows before the current one, each up to Q * W, and the remainder goes to the current one
    (KIP-599: "allocate the burst to all the previous window up to Q and to allocate the remaining part the the current
    window"). When a window expires, its charges expire with it. The KIP leaves three questions open:

    - **Which of the earlier windows is filled first?** The oldest, which expires first. The change was made "to allow
      the average rate to decrease regularly similarly to what the token bucket does", and only if the oldest is filled
      first does a charge of any size start to expire at the end of the current window, by Q * W per window. The price
      is the one for which the KIP abandoned it: a client that makes Q mutations each second sees a rate near 0, not Q.
    - **Where do windows start?** At the first charge, and at the first charge after all have expired, as Kafka's
      samples do; from then on every W seconds, because windows must exist in order to be filled.
    - **What if a quota changes?** Spread charges stay where they are. A raised quota leaves more room in the same
      windows; after a lowered one, windows that hold more take no more.
    """

    begins_at: int = 0
    """The start of the oldest window [epoch ms]."""
    levels: tuple[float, ...] = ()
    """The mutations in each window from the oldest on; trailing empty windows are left out."""

    def at(self, now: int, window: Window) -> "SpreadWindows":
        """Return the windows that count at `now` (epoch ms). An earlier `now` leaves them as they are."""
        before = window.num - 1
        expired = (now - self.begins_at) // window.size_ms - before
        if not self.levels or expired >= len(self.levels):
            return SpreadWindows(now - before * window.size_ms)
        if expired <= 0:
            return self
        return SpreadWindows(self.begins_at + expired * window.size_ms, self.levels[expired:])

    def moved(self, ms: int) -> "SpreadWindows":
        """Return the windows as of other times, by a number of ms."""
        return SpreadWindows(self.begins_at + ms, self.levels)

    @property
    def total(self) -> float:
        """The mutations in all windows: all charges but the expired ones."""
        return math.fsum(self.levels)

    def add(self, cost: float, now: int, window: Window, rate: float) -> "SpreadWindows":
        """Return the windows with a charge at `now`, spread by a quota of `rate` mutations per second.

        A late charge counts in the current window.
        """
        current = self.at(now, window)
        levels, capacity = list(current.levels), rate * window.size_seconds
        for index in range(window.num - 1):
            if cost <= 0:
                break
            if index == len(levels):
                levels.append(0.0)
            share = min(cost, max(0.0, capacity - levels[index]))
            levels[index] += share
            cost -= share
        if cost > 0:
            levels += [0.0] * (window.num - len(levels))
            levels[-1] += cost
        return SpreadWindows(current.begins_at, tuple(levels))


NO_SPREAD = SpreadWindows()
