"""Totals of answers, for the metrics and for the lines of `run`."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from jobs.metrics.counts import MutationCounts
from jobs.metrics.tenants import TenantRegistry
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision, Outcome, as_received
from quota.records.quota import Window
from quota.records.result import MutationResult

BOUNDS_MS = (50, 100, 200, 300, 500, 750, 1000, 2000, 5000, 10_000, 30_000, 60_000)


class Latencies:
    """A histogram of latencies in ms."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self.total_ms = 0

    def add(self, latency_ms: int) -> None:
        """Count a latency; a negative one, which a slow clock causes, counts as 0."""
        latency_ms = max(0, latency_ms)
        self._counts[bisect_left(BOUNDS_MS, latency_ms)] += 1
        self.total_ms += latency_ms

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield each upper bound, the last one infinite, and the number of latencies up to it."""
        return zip((*BOUNDS_MS, float("inf")), accumulate(self._counts), strict=True)


class DecisionTotals:
    """Running totals of decisions and dead letters. Copies of a decision, which a crash may leave, count again."""

    def __init__(self, window: Window, max_tenants: int) -> None:
        self.tenants = TenantRegistry(window, max_tenants)
        self.latencies = Latencies()
        self.decisions: Counter[Outcome] = Counter()
        self.counts = MutationCounts()
        self.repeats = 0
        self.dead_letters = 0

    def record(self, answer: Decision | DeadLetter | MutationResult, at: int) -> None:
        """Add an answer that was written to its topic at a time (epoch ms); results are ignored."""
        if isinstance(answer, DeadLetter):
            self.dead_letters += 1
        if not isinstance(answer, Decision):
            return
        counts = MutationCounts.of(answer)
        self.tenants.record(as_received(answer, at), counts)
        if answer.observed is None:  # otherwise no client waits for it, and the log may be read much later
            self.latencies.add(at - answer.timestamp)
        self.decisions[answer.outcome] += 1
        self.counts += counts
        self.repeats += answer.repeats is not None
