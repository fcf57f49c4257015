"""Counts of decisions: of one, of each tenant (everyone who shares a bucket), and of all."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Self

import msgspec
from msgspec.structs import replace

from quota.admission.order import RunningOrder, position_of
from quota.algorithms.kafka_rate import NO_SAMPLES, RateMetric, Samples
from quota.algorithms.token_bucket import Bucket, tokens_at
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision, Outcome, as_received
from quota.records.entity import Tags
from quota.records.levels import Limit
from quota.records.quota_log import Window
from quota.records.reason import Reason


class MutationCounts(msgspec.Struct, frozen=True):
    """The effective topics of decisions, and their mutations (the partitions that they cost)."""

    topics_admitted: int = 0
    topics_rejected: int = 0
    mutations_admitted: int = 0
    mutations_rejected: int = 0
    charged: int = 0
    """Mutations charged to the bucket; for a quota in shadow, the mutations that it would have admitted."""
    shadow_rejected: int = 0
    """Topics that a quota in shadow would have rejected."""

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Count the topics of a decision."""
        free, shadow = decision.free_topics, decision.shadow
        topics = decision.topics[free:]
        admitted = [topic.partitions for topic in topics if not topic.error_code]
        rejected = [topic.partitions for topic in topics if topic.error_code]
        return cls(
            len(admitted),
            len(rejected),
            sum(admitted),
            sum(rejected),
            sum(decision.charged),
            sum(map(bool, shadow.error_codes[free:])) if shadow else 0,
        )

    def __add__(self, other: "MutationCounts") -> "MutationCounts":
        return MutationCounts(
            *(getattr(self, name) + getattr(other, name) for name in MutationCounts.__struct_fields__)
        )

    @property
    def mutations(self) -> int:
        """Admitted and rejected mutations."""
        return self.mutations_admitted + self.mutations_rejected


class LastDecision:
    """The last decision of a bucket, in the order in which the bucket decides, not that of clocks or arrival."""

    def __init__(self, decision: Decision) -> None:
        self._order = RunningOrder()
        self._place = self._order.place(position_of(decision))
        self.decision = decision

    def add(self, decision: Decision) -> None:
        """Take a decision if it is the last one now; a copy of an older one, which a crash may leave, is not.

        Requests of other partitions that came late were charged after it, and have only lowered the tokens.
        """
        place, last = self._order.place(position_of(decision)), self.decision
        if place >= self._place:
            self._place, self.decision = place, decision
        if decision.tokens is None or last.tokens is None or decision.tokens == last.tokens:
            return
        if decision.bucket_at == last.bucket_at:
            self.decision = replace(self.decision, tokens=min(decision.tokens, last.tokens))


NEAR_LIMIT = 0.2
"""A tenant is near its limit while its bucket has less than this share of the burst."""

_THROTTLE_WINDOW = Window(num=2, size_seconds=30)
"""The window of Kafka's mean throttle time: `metrics.num.samples` and `metrics.sample.window.ms`."""


class TenantMetrics:
    """The three metrics of Kafka's group ControllerMutation for one tenant. Times are epoch ms."""

    def __init__(self, first: Decision, window: Window) -> None:
        """Start without counts; `first` is the first decision of the bucket."""
        self.window = window
        self.charged = self.requested = RateMetric(window)
        """Charged mutations; and admitted and rejected ones, by which tenants are ranked."""
        self.topics_admitted = self.topics_rejected = 0
        self._throttles: Samples = NO_SAMPLES
        self._throttled_ms: Samples = NO_SAMPLES
        self._last = LastDecision(first)

    def record(self, decision: Decision, counts: MutationCounts) -> None:
        """Add a decision, as of its receipt, to the totals and samples."""
        now = decision.timestamp
        self._last.add(decision)
        self.topics_admitted += counts.topics_admitted
        self.topics_rejected += counts.topics_rejected
        if counts.charged:
            self.charged = self.charged.record(counts.charged, now)
        if counts.mutations:
            self.requested = self.requested.record(counts.mutations, now)
        throttle = decision.controller_throttle_ms
        if throttle > decision.request_throttle_ms:  # otherwise the request quota throttles (KIP-599)
            self._throttles = self._throttles.record(1, now, _THROTTLE_WINDOW)
            self._throttled_ms = self._throttled_ms.record(throttle, now, _THROTTLE_WINDOW)

    @property
    def last(self) -> Decision:
        """The last decision of the bucket."""
        return self._last.decision

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota; without one there is no bucket."""
        return self.last.tokens is not None

    @property
    def burst(self) -> float:
        """The burst [mutations]; 0 without a quota."""
        last = self.last
        return 0.0 if last.quota is None else self.window.burst(last.quota, last.burst)

    def rate(self, now: int) -> float:
        """Return `rate`: the mutations charged per second over the window."""
        return self.charged.measure(now)

    def tokens(self, now: int) -> float:
        """Return `tokens`: the tokens now if the quota is still that of the last decision; 0 without a quota."""
        quota = self.last.applied_quota
        if quota is None or self.last.tokens is None:
            return 0.0
        return tokens_at(now, Bucket.after(self.last), Limit(quota, self.last.timestamp), self.window)

    def throttle_ms(self, now: int) -> float:
        """Return `throttle-time`: the mean of the last minute by Kafka's samples; 0 if nothing was throttled."""
        throttles = self._throttles.at(now, _THROTTLE_WINDOW).total
        return self._throttled_ms.at(now, _THROTTLE_WINDOW).total / throttles if throttles else 0.0

    def is_near_limit(self, now: int) -> bool:
        """Return whether less than `NEAR_LIMIT` of the burst is left."""
        return self.is_limited and self.tokens(now) < NEAR_LIMIT * self.burst


_EXPIRES_MS = 3_600_000
"""A tenant without decisions for this time is dropped, as Kafka's sensors are."""


class TenantRegistry:
    """The metrics of a bounded number of tenants by their tags, because clients can make up client-ids."""

    def __init__(self, window: Window, max_tenants: int) -> None:
        """Start without tenants; when there are 2 * `max_tenants`, all but `max_tenants` of the busiest are dropped."""
        self._window = window
        self._max_tenants = max_tenants
        self._tenants: dict[Tags, TenantMetrics] = {}
        self.forgotten = 0
        """The number of tenants ever dropped while they were active."""

    def __len__(self) -> int:
        return len(self._tenants)

    def record(self, decision: Decision, counts: MutationCounts) -> None:
        """Add a decision to the metrics of its tenant."""
        tags = decision.tags
        tenant = self._tenants.get(tags)
        if tenant is None:
            if len(self._tenants) >= 2 * self._max_tenants:
                self._drop_tenants(decision.timestamp)
            tenant = self._tenants[tags] = TenantMetrics(decision, self._window)
        tenant.record(decision, counts)

    def busiest(self, now: int) -> list[TenantMetrics]:
        """Return the tenants that have a quota and decisions in the hour before `now` (epoch ms).

        They are sorted by the mutations that they request per second, then by their last decision.
        """
        active = [tenant for tenant in self._tenants.values() if tenant.is_limited and _is_active(tenant, now)]
        return sorted(active, key=lambda tenant: _idleness(tenant, now))

    def _drop_tenants(self, now: int) -> None:
        active = [(tags, tenant) for tags, tenant in self._tenants.items() if _is_active(tenant, now)]
        active.sort(key=lambda pair: _idleness(pair[1], now))
        self._tenants = dict(active[: self._max_tenants])
        self.forgotten += max(0, len(active) - self._max_tenants)


def _is_active(tenant: TenantMetrics, now: int) -> bool:
    return now - tenant.last.timestamp < _EXPIRES_MS


def _idleness(tenant: TenantMetrics, now: int) -> tuple[float, int]:
    return -tenant.requested.measure(now), -tenant.last.timestamp


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
        self.reasons: Counter[Reason] = Counter()
        """Rejected topics by reason."""
        self.repeats = 0
        self.dead_letters = 0

    def record(self, answer: Decision | DeadLetter, at: int) -> None:
        """Add an answer that was written to its topic at a time (epoch ms)."""
        if isinstance(answer, DeadLetter):
            self.dead_letters += 1
            return
        counts = MutationCounts.of(answer)
        self.tenants.record(as_received(answer, at), counts)
        if answer.observed is None:  # otherwise no client waits for it, and the log may be read much later
            self.latencies.add(at - answer.timestamp)
        self.decisions[answer.outcome] += 1
        self.counts += counts
        if counts.topics_rejected:
            self.reasons.update(topic.reason for topic in answer.topics if topic.reason)
        self.repeats += answer.repeats is not None
