"""The algorithms that KIP-599 weighed against the token bucket: a quota on the average rate of the last S * W seconds.

They are for trying and comparing; what is enforced is the token bucket.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from quota.admission.resolve import ResolvedRequest
from quota.algorithms.algorithm import Admission, Bounds, is_reset
from quota.algorithms.bucket import Window, in_debt, throttle_ms
from quota.algorithms.token_bucket import charge
from quota.records.quota import Quota
from quota.records.request import Mode


class Charges(Protocol):
    """What was charged of late: `quota.algorithms.kafka_rate.Samples`, or `quota.algorithms.spread.Spread`.

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


class Charged(msgspec.Struct, Generic[C], frozen=True):
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
      divides by S * W, and `quota.algorithms.rate_metric` as the class does.)
    - `Spread`, an earlier version of the KIP, in which it fades window by window. The told wait is right but for the
      rest of a window: windows fall out whole, so it may take up to W seconds more.

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

    def admit(self, state: Charged[C] | None, resolved: ResolvedRequest) -> Admission[Charged[C]]:
        """Charge one request, as `quota.algorithms.algorithm.Algorithm` has it."""
        resolution, request, now = resolved.resolution, resolved.request, resolved.record.timestamp
        limit = resolution.limit
        if limit is None or request.validate_only:
            return Admission(state, [True] * len(request.topics), 0, None, None)
        if state is None or is_reset(state.reset_at, resolution.reset_at):
            state = Charged(self.none, resolution.reset_at)

        rate, strict = limit.quota.rate, request.mode is Mode.STRICT
        charges = state.charges.at(now, self.window)
        counted = charges.total
        room = self.window.burst(rate) - counted
        admitted, left = charge(room, counted, request.topics, Quota(rate), strict=strict)
        if any(admitted):
            cost = sum(topic.partitions for topic, each in zip(request.topics, admitted, strict=True) if each)
            state = Charged(charges.add(cost, now, self.window, rate), state.reset_at)
        throttled = not all(admitted) if strict else in_debt(left, counted)
        return Admission(state, admitted, throttle_ms(left, counted, rate) if throttled else 0, None, None)

    def bounds(self, quota: Quota) -> Bounds:
        """The quota's rate, and the burst that follows from it."""
        return quota.rate, self.window.burst(quota.rate), None
