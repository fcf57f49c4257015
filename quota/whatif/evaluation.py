"""The backtest: recorded requests are decided again by other quotas, windows or algorithms, and the effects counted.

The requests come in a stream, of which nothing is kept but the buckets and the counts.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from quota.admission.decide import decide_next
from quota.admission.policy import Policy
from quota.callbacks.timeline import CallbackTimeline
from quota.records.decision import Decision
from quota.records.levels import Resolution
from quota.whatif.rates import Algorithm
from quota.whatif.recorded import resolve_again, resolved_to
from quota.whatif.result import CandidateOutcome, Replay, ReplayDifference, Result, Sender, Totals

_MAX_EXAMPLES = 5

_Sender: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Quotas, an algorithm and a policy to evaluate."""

    name: str
    quotas: CallbackTimeline
    algorithm: Algorithm
    policy: Policy
    enforces_shadow: bool = True
    """Whether quotas in shadow are enforced, so that a candidate shows their effect; otherwise they stay in shadow."""

    def resolve(self, decision: Decision) -> Resolution:
        """Return the quota of a recorded request."""
        resolution = resolve_again(decision, self.quotas, self.policy)
        return resolution._replace(shadow=False) if self.enforces_shadow else resolution


@dataclass(frozen=True, slots=True)
class Period:
    """The requests that count, in epoch ms."""

    since: int | None = None
    """Earlier requests only charge the buckets, and their senders may still be throttled."""
    until: int | None = None
    """The end, at which throttle times are cut."""
    late_ms: int | None = None
    """The most by which a request is earlier than one before it, so that older counts are final; None if unknown."""


def evaluate(
    decisions: Iterable[Decision],
    candidates: Sequence[Candidate],
    recorded_outcome: str,
    period: Period = Period(),
    *,
    reproduces: bool = False,
) -> Result:
    """Return the outcome of recorded decisions under a name, and that of each candidate; none if no request counts.

    The decisions of a bucket are in its order. With `reproduces` the first candidate should decide as recorded, and
    the result says whether it does.
    """
    replays = [_Replay(candidate) for candidate in candidates]
    outcomes = [EffectCounts(period) for _ in range(1 + len(replays))]
    differences = _Differences()
    for recorded in decisions:
        as_recorded = Effect.of(recorded, recorded)
        outcomes[0].add(as_recorded)
        for number, replay in enumerate(replays):
            again = replay.decide(recorded)
            differs = again != recorded
            outcomes[1 + number].add(Effect.of(again, recorded) if differs else as_recorded)
            if differs and reproduces and number == 0 and recorded.timestamp >= (period.since or 0):
                differences.add(again, recorded)
    names = [recorded_outcome, *(candidate.name for candidate in candidates)]
    results = [outcome.result(name) for name, outcome in zip(names, outcomes, strict=True)]
    requests = results[0].load.requests
    return Result(differences.result(requests) if reproduces else None, results if requests else [])


class _Replay:
    """The buckets of a candidate; senders without a limit have one of their own."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._states: dict[object, Any] = {}

    def decide(self, recorded: Decision) -> Decision:
        resolution = self._candidate.resolve(recorded)
        bucket = resolution.tags if resolution.limit else (recorded.user, recorded.client_id)
        resolved = resolved_to(recorded, resolution)
        state, decision = decide_next(self._states.get(bucket), resolved, self._candidate.algorithm)
        self._states[bucket] = state
        return decision


class _Differences:
    """The decisions that differ from the recorded ones: their number, and the first id of each sender."""

    def __init__(self) -> None:
        self._count = 0
        self._first: dict[_Sender, ReplayDifference] = {}

    def add(self, decision: Decision, recorded: Decision) -> None:
        self._count += 1
        sender = recorded.user, recorded.client_id
        first = self._first.get(sender)
        if first is None or recorded.decision_id < first.decision_id:
            self._first[sender] = ReplayDifference(recorded.decision_id, differing_fields(decision, recorded))

    def result(self, decisions: int) -> Replay:
        examples = sorted(self._first.values(), key=lambda difference: difference.decision_id)
        return Replay(decisions, self._count, examples[:_MAX_EXAMPLES])


def differing_fields(decision: Decision, recorded: Decision) -> list[str]:
    """Return the fields in which two decisions on a request differ."""
    return [name for name in Decision.__struct_fields__ if getattr(decision, name) != getattr(recorded, name)]


class Effect(NamedTuple):
    """The effect of a decision on its sender and on the controller; times are epoch ms."""

    user: str
    client_id: str
    timestamp: int
    retry_at: int
    """The time until which the sender is throttled [epoch ms]."""
    requests: int = 0
    rejected_requests: int = 0
    admitted: int = 0
    """The mutations that reach the controller."""
    rejected: int = 0
    """The mutations that do not."""
    newly_admitted: int = 0
    """The admitted mutations that were rejected when they were recorded."""
    newly_rejected: int = 0
    """The rejected mutations that were admitted when they were recorded."""

    @classmethod
    def of(cls, decision: Decision, recorded: Decision) -> "Effect":
        """Return the effect of a decision on a request, compared with the recorded decision."""
        admitted = decision.admitted
        costs = [0] * decision.free_topics + decision.costs
        topics = list(zip(costs, admitted, recorded.admitted, strict=True))
        return cls(
            recorded.user,
            recorded.client_id,
            recorded.timestamp,
            decision.retry_at,
            1,
            int(not all(admitted)),
            sum(cost for cost, now, _ in topics if now),
            sum(cost for cost, now, _ in topics if not now),
            sum(cost for cost, now, before in topics if now and not before),
            sum(cost for cost, now, before in topics if before and not now),
        )

    def counted_from(self, since: int) -> "Effect | None":
        """Return the effect from `since` (epoch ms) on.

        This is the rest of the throttle time for an earlier request; None if that is over.
        """
        if self.timestamp >= since:
            return self
        return Effect(self.user, self.client_id, since, self.retry_at) if self.retry_at > since else None


class EffectCounts:
    """Counts the effects of the recorded decisions, or of others on the same requests, in their order."""

    def __init__(self, period: Period = Period()) -> None:
        """Start without effects."""
        self._period = period
        self._peak = _Peak(period.late_ms)
        self._senders: dict[_Sender, _Load] = {}

    def add(self, effect: Effect) -> None:
        """Add an effect."""
        since = self._period.since
        counted = effect if since is None else effect.counted_from(since)
        if counted is None:
            return
        load = self._senders.get(counted[:2])
        if load is None:
            load = self._senders[counted[:2]] = _Load(self._period)
        load.add(counted)
        self._peak.add(counted.timestamp, counted.admitted)

    def result(self, name: str) -> CandidateOutcome:
        """Return the totals under a name."""
        loads = sorted(self._senders.items())
        counts = [sum(column) for column in zip(*(load.counts for _, load in loads), strict=True)]
        throttled_ms = sum(load.throttled.ms for _, load in loads)
        senders = [Sender(*sender, _totals(load.counts, load.throttled.ms, load.peak.most)) for sender, load in loads]
        senders.sort(key=lambda sender: -sender.load.admitted - sender.load.rejected)
        return CandidateOutcome(name, _totals(counts or _NOTHING, throttled_ms, self._peak.most), senders)


_NOTHING = [0] * (len(Effect._fields) - Effect._fields.index("requests"))


def _totals(counts: Sequence[int], throttled_ms: int, peak: int) -> Totals:
    requests, rejected_requests, admitted, rejected, newly_admitted, newly_rejected = counts
    seconds = throttled_ms / 1000
    return Totals(requests, rejected_requests, admitted, rejected, seconds, newly_admitted, newly_rejected, peak)


class _Load:
    """The counted effects of a sender."""

    def __init__(self, period: Period) -> None:
        self.counts = _NOTHING
        self.peak = _Peak(period.late_ms)
        self.throttled = _Throttled(period)

    def add(self, effect: Effect) -> None:
        self.counts = [count + more for count, more in zip(self.counts, effect[4:], strict=True)]
        self.peak.add(effect.timestamp, effect.admitted)
        self.throttled.add(effect.timestamp, effect.retry_at)


class _Peak:
    """The most mutations that are admitted within one second."""

    def __init__(self, late_ms: int | None) -> None:
        self._late_ms = late_ms
        self._seconds: dict[int, int] = {}
        self.most = 0

    def add(self, timestamp: int, admitted: int) -> None:
        if not admitted:
            return
        second = timestamp // 1000
        if self._late_ms is not None and second not in self._seconds:
            self._forget_before((timestamp - self._late_ms) // 1000)
        total = self._seconds[second] = self._seconds.get(second, 0) + admitted
        self.most = max(self.most, total)

    def _forget_before(self, second: int) -> None:
        while self._seconds and (oldest := next(iter(self._seconds))) < second:
            del self._seconds[oldest]


class _Throttled:
    """The time for which a sender is throttled; overlapping times, of several buckets, count once."""

    def __init__(self, period: Period) -> None:
        self._period = period
        self._final_ms = 0
        self._spans: list[tuple[int, int]] = []  # apart from each other, in their order

    def add(self, begin: int, end: int) -> None:
        """Add a time [epoch ms]."""
        until, late_ms = self._period.until, self._period.late_ms
        end = end if until is None else min(end, until)
        if begin >= end:
            return
        spans = self._spans
        first, last = bisect_left(spans, begin, key=itemgetter(1)), bisect_right(spans, end, key=itemgetter(0))
        if first < last:
            begin, end = min(begin, spans[first][0]), max(end, spans[last - 1][1])
        spans[first:last] = [(begin, end)]
        while late_ms is not None and spans[0][1] < begin - late_ms:
            self._final_ms += spans[0][1] - spans[0][0]
            del spans[0]

    @property
    def ms(self) -> int:
        """The sum of all times."""
        return self._final_ms + sum(end - begin for begin, end in self._spans)
