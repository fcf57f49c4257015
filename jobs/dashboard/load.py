"""The load of the last hour in intervals of a few seconds."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from jobs.metrics.counts import MutationCounts
from quota.records.decision import Decision

WIDTH_MS = 5000
"""The length of an interval [ms]."""

SPAN_MS = 3_600_000
_OVERLAP = 3
"""The number of newest intervals that are always sent again, even if they have not changed."""


class Interval(msgspec.Struct, frozen=True):
    """The sums of one interval, in the form for the page."""

    at: int
    """Its start [epoch ms]."""
    decisions: int
    admitted: int
    """Effective mutations admitted."""
    refused: int
    throttled: int
    """The number of buckets with a throttled sender."""
    wait: int
    """The longest throttle time [ms]."""
    p50: int | None
    """The median time from request to decision [ms]; None if no client waited for a decision."""
    p99: int | None
    letters: int


@dataclass(slots=True)
class _Sums:
    seq: int = 0
    decisions: int = 0
    admitted: int = 0
    refused: int = 0
    throttled: int = 0
    wait: int = 0
    letters: int = 0
    latencies: Counter[int] = field(default_factory=Counter)


class Load:
    """The sums of each interval; callers pass the number of the state change."""

    def __init__(self) -> None:
        self._sums: dict[int, _Sums] = {}

    def record(self, decision: Decision, counts: MutationCounts, received_at: int, seq: int) -> None:
        """Add a decision, whose record has the timestamp `received_at` (epoch ms)."""
        sums = self._at(decision.timestamp, seq)
        sums.decisions += 1
        sums.admitted += counts.mutations_admitted
        sums.refused += counts.mutations_refused
        sums.wait = max(sums.wait, decision.throttle_time_ms)
        if decision.observed is None:  # otherwise no client waits for it
            sums.latencies[_rounded(max(0, received_at - decision.timestamp))] += 1

    def record_letter(self, at: int, seq: int) -> None:
        """Count a dead letter whose record has the timestamp `at` (epoch ms)."""
        self._at(at, seq).letters += 1

    def record_throttled(self, at: int, seq: int) -> None:
        """Count a bucket with a throttled sender in the interval at `at` (epoch ms)."""
        self._at(at, seq).throttled += 1

    def expire(self, now: int) -> None:
        """Drop the intervals that are older than an hour."""
        for start in [start for start in self._sums if start + WIDTH_MS <= now - SPAN_MS]:
            del self._sums[start]

    def intervals(self, now: int, after_seq: int = 0) -> list[Interval]:
        """Return the intervals up to `now` (epoch ms) that have changed since a state change, and the newest ones."""
        newest = start_of(now) - (_OVERLAP - 1) * WIDTH_MS
        return [
            _interval(start, sums)
            for start, sums in sorted(self._sums.items())
            if start <= now and (sums.seq > after_seq or start >= newest)
        ]

    def _at(self, moment: int, seq: int) -> _Sums:
        sums = self._sums.setdefault(start_of(moment), _Sums())
        sums.seq = seq
        return sums


def start_of(moment: int) -> int:
    """Return the start of the interval that contains a time (epoch ms)."""
    return moment // WIDTH_MS * WIDTH_MS


def _interval(start: int, sums: _Sums) -> Interval:
    return Interval(
        start,
        sums.decisions,
        sums.admitted,
        sums.refused,
        sums.throttled,
        sums.wait,
        _percentile(sums.latencies, 50),
        _percentile(sums.latencies, 99),
        sums.letters,
    )


def _rounded(latency_ms: int) -> int:
    """Round to two digits, so that an interval has at most a few hundred different values."""
    return round(latency_ms, min(0, 2 - len(str(latency_ms))))


def _percentile(counts: Counter[int], percent: int) -> int | None:
    left = counts.total() * percent // 100
    for value, count in sorted(counts.items()):
        left -= count
        if left < 0:
            return value
    return max(counts, default=None)
