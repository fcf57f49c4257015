"""Charges as Kafka's `Rate` keeps them (org.apache.kafka.common.metrics.stats.SampledStat): S samples of W seconds."""

import math

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
