"""How a tenant stands, as its decisions tell; a tenant is those who share a bucket."""

from dataclasses import dataclass, field

from jobs.metrics.counts import MutationCounts
from quota.algorithms.bucket import Bucket, Window, tokens_at
from quota.algorithms.kafka_rate import NO_SAMPLES, RateMetric, Samples
from quota.records.decision import Decision
from quota.records.quota import Limit, Quota

NEAR_LIMIT = 0.2
"""A tenant is near its limit while its bucket holds less than this share of the burst."""

_THROTTLE_WINDOW = Window(num=2, size_seconds=30)
"""What Kafka takes the mean throttle time over: `metrics.num.samples` and `metrics.sample.window.ms`."""


@dataclass(slots=True)
class TenantMetrics:
    """Kafka's three metrics of the group ControllerMutation, and what they are judged by. Times are epoch ms."""

    last: Decision
    """The newest; tokens, quota and burst are its."""
    window: Window
    charged: RateMetric = field(init=False)
    asked: RateMetric = field(init=False)
    """Of what was refused, too: it says who is busy."""
    topics_admitted: int = 0
    topics_refused: int = 0
    _throttles: Samples = NO_SAMPLES
    _throttled_ms: Samples = NO_SAMPLES

    def __post_init__(self) -> None:
        self.charged = self.asked = RateMetric(self.window)

    def hear(self, decision: Decision, asked: MutationCounts) -> None:
        """Take note of a decision."""
        now = decision.timestamp
        if now >= self.last.timestamp:
            self.last = decision
        self.topics_admitted += asked.topics_admitted
        self.topics_refused += asked.topics_refused
        if asked.charged:
            self.charged = self.charged.record(asked.charged, now)
        if asked.mutations:
            self.asked = self.asked.record(asked.mutations, now)
        throttle = decision.controller_throttle_ms
        if throttle > decision.request_throttle_ms:  # else it is the request quota that throttles (KIP-599)
            self._throttles = self._throttles.record(1, now, _THROTTLE_WINDOW)
            self._throttled_ms = self._throttled_ms.record(throttle, now, _THROTTLE_WINDOW)

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota; without one there is no bucket."""
        return self.last.tokens is not None

    @property
    def burst(self) -> float:
        """B, in mutations; 0 without a quota."""
        last = self.last
        return 0.0 if last.quota is None else self.window.burst(last.quota, last.burst)

    def rate(self, now: int) -> float:
        """`rate`: mutations a second that were charged of late."""
        return self.charged.measure(now)

    def tokens(self, now: int) -> float:
        """`tokens`: what the bucket holds by now, if its quota is the one of its last decision; 0 without a quota."""
        last = self.last
        if last.quota is None or last.tokens is None:
            return 0.0
        bounds = (last.quota, last.burst, last.max_debt_ms)
        return tokens_at(
            now, Bucket(last.tokens, last.timestamp, *bounds), Limit(Quota(*bounds), last.timestamp), self.window
        )

    def throttle_ms(self, now: int) -> float:
        """`throttle-time`: the mean of those told in the last minute, by Kafka's samples; 0 where none was told."""
        told = self._throttles.at(now, _THROTTLE_WINDOW).total
        return self._throttled_ms.at(now, _THROTTLE_WINDOW).total / told if told else 0.0

    def is_near_limit(self, now: int) -> bool:
        """Whether little is left of the burst."""
        return self.is_limited and self.tokens(now) < NEAR_LIMIT * self.burst


_EXPIRES_MS = 3_600_000
"""A tenant that was not heard of for so long is dropped, as Kafka's sensors are."""

_Key = tuple[str, str, tuple[tuple[str, str], ...]]


class TenantRegistry:
    """Tenants by their tags. Anyone can make up client-ids, so there is a bound to how many are kept."""

    def __init__(self, window: Window, most: int) -> None:
        """Keep none yet.

        Args:
            window: S and W.
            most: twice as many are kept at most; when there are more, all but so many of the busiest are forgotten.
        """
        self._window = window
        self._most = most
        self._kept: dict[_Key, TenantMetrics] = {}
        self.forgotten = 0
        """How many were active still and had to go, ever."""

    def hear(self, decision: Decision, asked: MutationCounts) -> TenantMetrics:
        """Take note of a decision, and say whose it is."""
        key = (decision.user_tag, decision.client_tag, tuple(sorted(decision.more_tags.items())))
        standing = self._kept.get(key)
        if standing is None:
            if len(self._kept) >= 2 * self._most:
                self._make_room(decision.timestamp)
            standing = self._kept[key] = TenantMetrics(decision, self._window)
        standing.hear(decision, asked)
        return standing

    @property
    def kept(self) -> list[TenantMetrics]:
        """Those that are kept, in the order in which they were first heard of."""
        return list(self._kept.values())

    def busiest(self, now: int) -> list[TenantMetrics]:
        """Those that have a quota and were heard of in the hour before `now` (epoch ms).

        Who asks for the most mutations a second comes first, then who was heard of last.
        """
        active = [each for each in self._kept.values() if each.is_limited and _is_active(each, now)]
        return sorted(active, key=lambda each: _idleness(each, now))

    def _make_room(self, now: int) -> None:
        active = [(key, each) for key, each in self._kept.items() if _is_active(each, now)]
        active.sort(key=lambda pair: _idleness(pair[1], now))
        self._kept = dict(active[: self._most])
        self.forgotten += max(0, len(active) - self._most)


def _is_active(standing: TenantMetrics, now: int) -> bool:
    return now - standing.last.timestamp < _EXPIRES_MS


def _idleness(standing: TenantMetrics, now: int) -> tuple[float, int]:
    return -standing.asked.measure(now), -standing.last.timestamp
