"""Charges as Kafka's `Rate` keeps them (org.apache.kafka.common.metrics.stats.SampledStat): S samples of W seconds."""

import math
from dataclasses import dataclass, replace
from typing import Self

import msgspec

from quota.algorithms.bucket import Window


class Sample(msgspec.Struct, frozen=True):
    """What was charged within W seconds: in mutations, from its first charge to its last (epoch ms)."""

    starts_at: int
    last_at: int
    charged: float


class Samples(msgspec.Struct, frozen=True):
    """The samples of a bucket or a metric, oldest first; none at the beginning, S + 1 at most.

    As in Kafka, a sample begins with a charge and takes what comes within W seconds of its beginning; what comes later
    begins another. It counts in full until S * W seconds after its last charge, and then not at all: a single
    large one holds the rate up for all that time.
    """

    kept: tuple[Sample, ...] = ()

    def at(self, now: int, window: Window) -> "Samples":
        """Those that count at `now` (epoch ms). An earlier `now` brings none back and removes none."""
        if not self.kept or now - self.kept[0].last_at < window.total_ms:
            return self
        return Samples(tuple(sample for sample in self.kept if now - sample.last_at < window.total_ms))

    @property
    def total(self) -> float:
        """Mutations charged in all samples."""
        return math.fsum(sample.charged for sample in self.kept)

    def record(self, cost: float, now: int, window: Window) -> "Samples":
        """With a charge at `now`; one that is late goes into the newest sample."""
        kept = self.at(now, window).kept
        newest = kept[-1] if kept else None
        if newest is None or now - newest.starts_at >= window.size_ms:
            return Samples((*kept, Sample(now, now, cost)))
        return Samples((*kept[:-1], Sample(newest.starts_at, max(newest.last_at, now), newest.charged + cost)))

    def add(self, cost: float, now: int, window: Window, rate: float) -> "Samples":  # noqa: ARG002 see below
        """As `quota.rate.Charges` has it: what is allowed makes no difference to what was charged."""
        return self.record(cost, now, window)


NO_SAMPLES = Samples()
"""Nothing was charged."""


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
