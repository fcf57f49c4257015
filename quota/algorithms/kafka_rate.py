"""Kafka's `Rate` (org.apache.kafka.common.metrics.stats.SampledStat): the charges of S samples of W seconds."""

import math
from dataclasses import dataclass, replace
from typing import Self

import msgspec

from quota.records.quota_log import Window


class Sample(msgspec.Struct, frozen=True):
    """The mutations charged within W seconds, and the times of the first and the last charge (epoch ms)."""

    starts_at: int
    last_at: int
    charged: float


class Samples(msgspec.Struct, frozen=True):
    """The samples of a bucket or a metric, oldest first; none at the start, S + 1 at most.

    As in Kafka, a sample starts with a charge and takes all charges within W seconds of its start; a later one starts
    another sample. A sample counts in full until S * W seconds after its last charge, and then not at all: a single
    large charge keeps the rate up for all that time.
    """

    items: tuple[Sample, ...] = ()

    def at(self, now: int, window: Window) -> "Samples":
        """Return the samples that count at `now` (epoch ms). An earlier `now` neither restores nor removes any."""
        if not self.items or now - self.items[0].last_at < window.total_ms:
            return self
        return Samples(tuple(sample for sample in self.items if now - sample.last_at < window.total_ms))

    @property
    def total(self) -> float:
        """The mutations charged in all samples."""
        return math.fsum(sample.charged for sample in self.items)

    def moved(self, ms: int) -> "Samples":
        """Return the samples as of other times, by a number of ms."""
        return Samples(
            tuple(Sample(sample.starts_at + ms, sample.last_at + ms, sample.charged) for sample in self.items)
        )

    def record(self, cost: float, now: int, window: Window) -> "Samples":
        """Return the samples with a charge of `cost` mutations at `now`; a late charge goes into the newest sample."""
        items = self.at(now, window).items
        newest = items[-1] if items else None
        if newest is None or now - newest.starts_at >= window.size_ms:
            return Samples((*items, Sample(now, now, cost)))
        return Samples((*items[:-1], Sample(newest.starts_at, max(newest.last_at, now), newest.charged + cost)))


NO_SAMPLES = Samples()
"""No charges."""


@dataclass(frozen=True, slots=True)
class RateMetric:
    """Kafka's metric `rate` of the group ControllerMutation: charges per second (KIP-599).

    It rejects nothing. Measuring changes nothing, whereas in Kafka a read restarts expired samples.
    """

    window: Window
    samples: Samples = NO_SAMPLES

    def record(self, cost: float, now: int) -> Self:
        """Return the metric with a charge of `cost` mutations that was admitted at `now` (epoch ms)."""
        return replace(self, samples=self.samples.record(cost, now, self.window))

    def measure(self, now: int) -> float:
        """Return the mutations per second as of `now`: the samples' total over the time since the oldest one started.

        As in Kafka that time is at least S - 1 whole windows, so that the first charge does not result in a rate that
        is many times too high.
        """
        samples = self.samples.at(now, self.window)
        if not samples.items:
            return 0.0
        passed = max(0, now - samples.items[0].starts_at)
        missing = max(0, self.window.num - 1 - passed // self.window.size_ms)
        return samples.total / (max(1, passed + missing * self.window.size_ms) / 1000)
