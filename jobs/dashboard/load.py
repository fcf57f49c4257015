"""The load of the last hour in intervals of a few seconds."""

from collections import Counter, defaultdict

import msgspec

from jobs.dashboard.decisions import KEPT_MS, Summary

WIDTH_MS = 5000
"""The length of an interval [ms]."""

_MAX_THROTTLED_MS = 24 * KEPT_MS
_MAX_THROTTLED = 50_000
_OVERLAP = 3
"""The number of newest intervals that are always sent again, even if they have not changed."""


class Interval(msgspec.Struct):
    """The sums of one interval, in the form for the page."""

    at: int
    """Its start [epoch ms]."""
    seq: int = 0
    """The number of the state change that has changed it last."""
    decisions: int = 0
    admitted: int = 0
    """Effective mutations admitted."""
    rejected: int = 0
    throttled: int = 0
    """The number of buckets with a throttled sender."""
    wait: int = 0
    """The longest throttle time [ms]."""
    p50: int | None = None
    """The median time from request to decision [ms]; None if no client waited for a decision."""
    p99: int | None = None
    letters: int = 0


class Load:
    """The sums of each interval, of all tenants or of some."""

    def __init__(self) -> None:
        self._intervals: dict[int, Interval] = {}
        self._latencies: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._throttled_until: dict[str, int] = {}

    def add(self, decision: Summary) -> None:
        """Add a decision."""
        interval = self._at(decision.at, decision.seq)
        interval.decisions += 1
        interval.admitted += decision.admitted
        interval.rejected += decision.rejected
        interval.wait = max(interval.wait, decision.wait)
        if decision.latency is not None:
            self._latencies[interval.at][_rounded(decision.latency)] += 1
            if decision.wait:
                self._count_throttled(decision)

    def add_letter(self, at: int, seq: int) -> None:
        """Count a dead letter whose record has the timestamp `at` (epoch ms), as the state change `seq`."""
        self._at(at, seq).letters += 1

    def _count_throttled(self, decision: Summary) -> None:
        """Count the bucket in each interval until its throttle ends, also in future ones, once in each."""
        start = max(start_of(decision.at), self._throttled_until.get(decision.bucket, 0))
        end = decision.at + min(decision.wait, _MAX_THROTTLED_MS)
        if start < end and len(self._throttled_until) >= _MAX_THROTTLED:
            self._throttled_until.clear()  # clients can make up client-ids; their intervals may count twice then
        while start < end:
            self._at(start, decision.seq).throttled += 1
            start += WIDTH_MS
            self._throttled_until[decision.bucket] = start

    def expire(self, now: int) -> None:
        """Drop the intervals that are older than an hour."""
        for start in [start for start in self._intervals if start + WIDTH_MS <= now - KEPT_MS]:
            del self._intervals[start]
            self._latencies.pop(start, None)
        for bucket in [bucket for bucket, until in self._throttled_until.items() if until <= now - KEPT_MS]:
            del self._throttled_until[bucket]

    def intervals(self, now: int, after_seq: int = 0) -> list[Interval]:
        """Return the intervals up to `now` (epoch ms) that have changed since a state change, and the newest ones."""
        newest = start_of(now) - (_OVERLAP - 1) * WIDTH_MS
        return [
            msgspec.structs.replace(
                interval,
                p50=_percentile(self._latencies.get(start, Counter()), 50),
                p99=_percentile(self._latencies.get(start, Counter()), 99),
            )
            for start, interval in sorted(self._intervals.items())
            if start <= now and (interval.seq > after_seq or start >= newest)
        ]

    def _at(self, moment: int, seq: int) -> Interval:
        start = start_of(moment)
        interval = self._intervals.setdefault(start, Interval(start))
        interval.seq = seq
        return interval


def start_of(moment: int) -> int:
    """Return the start of the interval that contains a time (epoch ms)."""
    return moment // WIDTH_MS * WIDTH_MS


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
