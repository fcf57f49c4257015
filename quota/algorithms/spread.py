"""Charges spread back over earlier windows, as an earlier version of KIP-599 would have had Kafka's `Rate` do it."""

import math

import msgspec

from quota.algorithms.bucket import Window


class Spread(msgspec.Struct, frozen=True):
    """S windows of W seconds without gaps, of which the newest is the present one.

    A charge goes to the windows before the present one, each up to Q * W, and what is left of it to the present one
    (KIP-599: "allocate the burst to all the previous window up to Q and to allocate the remaining part the the current
    window"). A window that falls out of the S takes what it holds along. What the KIP leaves open:

    - **Which of the earlier windows first?** The oldest, which fall out first. The change was made "to allow the
      average rate to decrease regularly similarly to what the token bucket does", and only from the oldest on does
      a charge of any size begin to fade at the end of the present window, by Q * W a window. Its price is the one for
      which the KIP gave it up: whoever makes Q mutations each second sees a rate near 0, and not Q.
    - **Where do windows begin?** At the first charge, and at the first after all has fallen out, as Kafka's samples do;
      from there on every W seconds, because windows that are to be filled must be there.
    - **A quota that changes**: what was spread stays where it is. A raised one leaves more room in the same windows;
      after a lowered one, those that hold more take no more.
    """

    begins_at: int = 0
    """The oldest window does, epoch ms."""
    levels: tuple[float, ...] = ()
    """Mutations in each window, from the oldest on; those behind the last that holds any are left out."""

    def at(self, now: int, window: Window) -> "Spread":
        """What is left at `now` (epoch ms), in windows up to there. An earlier `now` leaves them as they are."""
        before = window.num - 1
        gone = (now - self.begins_at) // window.size_ms - before
        if not self.levels or gone >= len(self.levels):
            return Spread(now - before * window.size_ms)
        return Spread(self.begins_at + gone * window.size_ms, self.levels[gone:]) if gone > 0 else self

    @property
    def total(self) -> float:
        """Mutations in all windows: what was charged, but for what has fallen out."""
        return math.fsum(self.levels)

    def add(self, cost: float, now: int, window: Window, rate: float) -> "Spread":
        """With a charge at `now`, spread at a quota of `rate` mutations a second; one that is late counts as of now."""
        there = self.at(now, window)
        levels, most = list(there.levels), rate * window.size_seconds
        for place in range(window.num - 1):
            if cost <= 0:
                break
            if place == len(levels):
                levels.append(0.0)
            share = min(cost, max(0.0, most - levels[place]))
            levels[place] += share
            cost -= share
        if cost > 0:
            levels += [0.0] * (window.num - len(levels))
            levels[-1] += cost
        return Spread(there.begins_at, tuple(levels))


NOTHING_SPREAD = Spread()
"""Nothing was charged."""
