"""The algorithms that KIP-599 weighed against the token bucket: a quota on the average rate of the last S * W seconds.

They are for trying and comparing; what is enforced is the token bucket.
"""

import math
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from quota.algorithms.algorithm import Admission, Bounds, is_reset
from quota.algorithms.bucket import Window, in_debt, throttle_ms
from quota.algorithms.token_bucket import charge
from quota.records.quota import Quota
from quota.records.request import Mode
from quota.timeline.resolution import ResolvedRequest


class Charges(Protocol):
    """What was charged of late: `quota.algorithms.kafka_rate.Samples`, or `SpreadWindows`.

    Costs in mutations, times in epoch ms.
    """

    def at(self, now: int, window: Window) -> Self:
        """What of it counts at `now`. Time never runs backwards: an earlier `now` changes nothing."""

    @property
    def total(self) -> float:
        """The sum of what counts."""

    def add(self, cost: float, now: int, window: Window, rate: float) -> Self:
        """With another charge, under a quota of `rate` mutations a second."""


C = TypeVar("C", bound=Charges)


class RateState(msgspec.Struct, Generic[C], frozen=True):
    """State of one bucket: its charges, and the latest reset by an operator that it has followed (epoch ms)."""

    charges: C
    reset_at: int | None = None


@dataclass(frozen=True, slots=True)
class RateQuota(Generic[C]):
    """A topic is admitted iff R <= Q, R being what counts of the charges by S * W; the wait is (R - Q) / Q * S * W.

    With a room of Q * S * W less what counts, that is: iff the room is not below 0, and minus the room by Q. So it is
    reckoned, rounded and capped as a bucket's debt. How charges are kept makes the difference:

    - `Samples`, Kafka's `Rate` before the KIP, in which a single large one counts for all of S * W seconds. The told
      wait is too short then; whoever asks again after it is told the same again. (Kafka's class divides by the
      seconds of its windows that have passed, S - 1 windows at first, where the KIP's text divides by S * W; this
      divides by S * W, and `quota.algorithms.kafka_rate.RateMetric` as the class does.)
    - `SpreadWindows`, an earlier version of the KIP, in which it fades window by window. The told wait is right but for
      the rest of a window: windows fall out whole, so it may take up to W seconds more.

    Above 2 Q both tell more than S * W, though nothing counts for longer than that; the formula is the KIP's.

    What neither seed says:

    - Topics are charged one by one, as the bucket's are: each is admitted on what was charged before it, so that
      of one request some may be admitted and others refused. Refused ones are not charged, a request of an old client
      (permissive) is admitted, charged, and told to wait while R > Q. `validate_only` is never charged, nor refused.
    - A quota that changes judges all that counts by its present Q, from the moment it holds: a Rate knows what was
      charged, and not what was allowed. To raise it is to give for the past, too.
    - A Rate has no tokens, no burst but Q * S * W and no bound on debt: the decisions' `tokens` are null, and a quota's
      own `controller_mutation_burst` and `max_debt_ms` make no difference to it. Nor does it remember requests that
      are sent twice; each is charged.
    """

    window: Window
    none: C
    """Where charges are kept, with none in it."""

    def admit(self, state: RateState[C] | None, resolved: ResolvedRequest) -> Admission[RateState[C]]:
        """Charge one request, as `quota.algorithms.algorithm.Algorithm` has it."""
        resolution, request, now = resolved.resolution, resolved.request, resolved.record.timestamp
        limit = resolution.limit
        if limit is None or request.validate_only:
            return Admission(state, [True] * len(request.topics), 0, None, None)
        if state is None or is_reset(state.reset_at, resolution.reset_at):
            state = RateState(self.none, resolution.reset_at)

        rate, strict = limit.quota.rate, request.mode is Mode.STRICT
        charges = state.charges.at(now, self.window)
        counted = charges.total
        room = self.window.burst(rate) - counted
        admitted, left = charge(room, counted, request.topics, Quota(rate), strict=strict)
        if any(admitted):
            cost = sum(topic.partitions for topic, each in zip(request.topics, admitted, strict=True) if each)
            state = RateState(charges.add(cost, now, self.window, rate), state.reset_at)
        throttled = not all(admitted) if strict else in_debt(left, counted)
        return Admission(state, admitted, throttle_ms(left, counted, rate) if throttled else 0, None, None)

    def bounds(self, quota: Quota) -> Bounds:
        """The quota's rate, and the burst that follows from it."""
        return quota.rate, self.window.burst(quota.rate), None


class SpreadWindows(msgspec.Struct, frozen=True):
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

    def at(self, now: int, window: Window) -> "SpreadWindows":
        """What is left at `now` (epoch ms), in windows up to there. An earlier `now` leaves them as they are."""
        before = window.num - 1
        gone = (now - self.begins_at) // window.size_ms - before
        if not self.levels or gone >= len(self.levels):
            return SpreadWindows(now - before * window.size_ms)
        return SpreadWindows(self.begins_at + gone * window.size_ms, self.levels[gone:]) if gone > 0 else self

    @property
    def total(self) -> float:
        """Mutations in all windows: what was charged, but for what has fallen out."""
        return math.fsum(self.levels)

    def add(self, cost: float, now: int, window: Window, rate: float) -> "SpreadWindows":
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
        return SpreadWindows(there.begins_at, tuple(levels))


NO_SPREAD = SpreadWindows()
"""Nothing was charged."""
