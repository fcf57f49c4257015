"""The algorithms that KIP-599 rejected for the token bucket: a quota on the average rate of the last S * W seconds.

They exist for comparison, in simulations and backtests; the token bucket is what is enforced.
"""

import enum
import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication
from quota.algorithms.kafka_rate import NO_SAMPLES, Samples
from quota.algorithms.token_bucket import (
    Admission,
    Clock,
    TokenBucket,
    answers_within_limit,
    charge,
    clock_of,
    in_debt,
    is_reset,
    throttle_ms,
)
from quota.records.levels import ResolvedRequest
from quota.records.quota_log import Quota, Window
from quota.records.request import Mode


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


Charges: TypeAlias = Samples | SpreadWindows
"""The charges of a bucket, as one of the two algorithms stores them."""


class RateState(NamedTuple):
    """The state of a bucket."""

    charges: Charges
    reset_at: int | None = None
    """The latest reset by an operator that it has seen [epoch ms]."""
    charged_at: int = 0
    """The time of the newest charge [epoch ms]."""
    clock: Clock | None = None
    """The partition whose timestamp that is."""


@dataclass(frozen=True, slots=True)
class RateQuota:
    """A topic is admitted if R <= Q, where R is the charges that count / (S * W); the throttle is (R - Q) / Q * S * W.

    Let room be Q * S * W minus the charges that count. Then a topic is admitted if room >= 0, and the throttle time is
    -room / Q seconds, rounded and capped like that of a bucket in debt. The two variants differ in how they store
    charges:

    - `Samples`, Kafka's `Rate` before the KIP, where a single large charge counts for all of S * W seconds. The
      throttle time is then too short; a client that retries after it gets the same again. (Kafka's class divides by
      the elapsed time of its windows, at least S - 1 windows; the KIP's text divides by S * W; this
      divides by S * W, and `quota.algorithms.kafka_rate.RateMetric` as the class does.)
    - `SpreadWindows`, an earlier version of the KIP, where a large charge expires window by window. The throttle time
      is right except for the remainder of a window: windows expire whole, so it may take up to W seconds more.

    If R exceeds 2 Q, both report a throttle time above S * W seconds, although no charge counts for longer than that:
    this is the KIP's formula.

    The following is stated neither in the KIP nor in Kafka's code:

    - Topics are charged one by one as in the token bucket: each is admitted by what was charged before it, so that some
      topics of a request may be admitted and others rejected. Rejected ones are not charged; a permissive request is
      admitted, charged, and throttled while R > Q. A validate-only request is never charged and never rejected.
    - A changed quota applies its current Q to all charges that count, as soon as it takes effect: a Rate knows
      what was charged, not what was allowed. So raising it grants mutations for the past, too.
    - A Rate has no tokens, no burst other than Q * S * W, and no bound on debt: the decisions' `tokens` are null, and a
      quota's own `controller_mutation_burst` and `max_debt_ms` have no effect. It does not deduplicate: a request that
      is sent twice is charged twice.
    """

    window: Window
    empty: Charges

    def admit(self, state: RateState | None, resolved: ResolvedRequest) -> tuple[RateState | None, Admission]:
        """Charge one request, as `TokenBucket.admit` does."""
        resolution, request, now = resolved.resolution, resolved.request, resolved.record.timestamp
        limit = resolution.limit
        if limit is None:
            return state, Admission([True] * len(request.topics))
        quota = Quota(limit.quota.rate, max_request_mutations=limit.quota.max_request_mutations)
        burst = self.window.burst(quota.rate)
        if request.validate_only:
            return state, Admission([True] * len(request.topics), 0, quota, burst)
        if state is None or is_reset(state.reset_at, resolution.reset_at):
            state = RateState(self.empty, resolution.reset_at)

        clock = clock_of(resolved.record.source, request.observed)
        if now < state.charged_at and clock is not None and state.clock == clock:  # as in `TokenBucket.admit`
            state = RateState(state.charges.moved(now - state.charged_at), state.reset_at, now, clock)
        strict = request.mode is Mode.STRICT
        charges = state.charges.at(now, self.window)
        counted = charges.total
        admitted, room = charge(burst - counted, counted, request.topics, quota, strict=strict)
        if any(admitted):
            cost = sum(topic.partitions for topic, charged in zip(request.topics, admitted, strict=True) if charged)
            if isinstance(charges, SpreadWindows):
                charges = charges.add(cost, now, self.window, quota.rate)
            else:
                charges = charges.record(cost, now, self.window)
            newest = (state.charged_at, state.clock) if now < state.charged_at else (now, clock)
            state = RateState(charges, state.reset_at, *newest)
        within = answers_within_limit(admitted, request.topics, quota)
        throttled = not all(within) if strict else within and in_debt(room, counted)
        late_ms = max(state.charged_at - now, 0)
        throttle = throttle_ms(room, counted, quota.rate, late_ms) if throttled else 0
        return state, Admission(admitted, throttle, quota, burst)


Algorithm: TypeAlias = TokenBucket | RateQuota


class AlgorithmName(enum.Enum):
    """The algorithms of KIP-599: the chosen one, Kafka's former one, and that of an earlier version of the KIP."""

    TOKEN_BUCKET = "token-bucket"  # noqa: S105 no secret
    SAMPLED_RATE = "sampled-rate"
    SPREAD_RATE = "spread-rate"


def make_algorithm(name: AlgorithmName, window: Window, deduplication: Deduplication = NO_DEDUPLICATION) -> Algorithm:
    """Return the algorithm of this name. Those that are not enforced charge each repeat of a request."""
    if name is AlgorithmName.TOKEN_BUCKET:
        return TokenBucket(window, deduplication)
    return RateQuota(window, NO_SAMPLES if name is AlgorithmName.SAMPLED_RATE else NO_SPREAD)
