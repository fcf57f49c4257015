"""Kafka's metric `rate` of the group ControllerMutation: what was charged a second, of late."""

from dataclasses import dataclass, replace
from typing import Self

from quota.algorithms.bucket import Window
from quota.algorithms.kafka_rate import NO_SAMPLES, Samples


@dataclass(frozen=True, slots=True)
class RateMetric:
    """The rate of a (user, client-id), by the same numbers as Kafka's `Rate` beside its token bucket (KIP-599).

    A stream of charges in, each with its time (epoch ms); mutations a second out. Nothing is refused by it. Reading it
    changes nothing, where in Kafka a read begins samples anew that are over.
    """

    window: Window
    samples: Samples = NO_SAMPLES

    def record(self, cost: float, now: int) -> Self:
        """With a charge of `cost` mutations that was admitted at `now`."""
        return replace(self, samples=self.samples.record(cost, now, self.window))

    def measure(self, now: int) -> float:
        """Mutations a second as of `now`: what the samples hold, by the time since the oldest of them began.

        Of that time Kafka takes S - 1 whole windows at least, so that the first charge does not make a rate of
        many times what it is.
        """
        kept = self.samples.at(now, self.window)
        if not kept.kept:
            return 0.0
        passed = max(0, now - kept.kept[0].starts_at)
        lacking = max(0, self.window.num - 1 - passed // self.window.size_ms)
        return kept.total / (max(1, passed + lacking * self.window.size_ms) / 1000)
