"""The effects of decisions on their senders and on the controller: counted by sender, in a period."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import msgspec

from quota.records.decision import Decision

_Sender: TypeAlias = tuple[str, str]


class Totals(msgspec.Struct, frozen=True):
    """The totals of requests; in partition mutations, unless another unit is given."""

    requests: int
    rejected_requests: int
    admitted: int
    rejected: int
    throttled_seconds: float
    """The time for which senders were throttled; overlapping throttle times of one sender count once."""
    newly_admitted: int
    """The admitted ones that were rejected when they were recorded."""
    newly_rejected: int
    """The rejected ones that were admitted when they were recorded."""
    peak: int
    """The maximum admitted within one second."""


class Sender(msgspec.Struct, frozen=True):
    """The totals of a user and client-id."""

    user: str
    client_id: str
    load: Totals


class CandidateOutcome(msgspec.Struct, frozen=True):
    """The totals of a candidate."""

    name: str
    load: Totals
    """The totals of all senders."""
    senders: list[Sender]
    """The senders, those with the most requested mutations first."""


@dataclass(frozen=True, slots=True)
class Period:
    """The requests that count, in epoch ms."""

    since: int | None = None
    """Earlier requests only charge the buckets, and their senders may still be throttled."""
    until: int | None = None
    """The end, at which throttle times are cut."""
    late_ms: int | None = None
    """The most by which a request is earlier than one before it, so that older counts are final; None if unknown."""


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
            final = (timestamp - self._late_ms) // 1000
            while self._seconds and (oldest := next(iter(self._seconds))) < final:
                del self._seconds[oldest]
        total = self._seconds[second] = self._seconds.get(second, 0) + admitted
        self.most = max(self.most, total)


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
