"""The counters of an applier, which other threads may read while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quota.kafka.reading import Partition
from quota.kafka.timing import LoopStats
from quota.records.result import TopicResult


@dataclass(slots=True)
class ApplierStats(LoopStats):
    """The counts of an applier."""

    topics: int = 0
    """Topics carried out."""
    found_done: int = 0
    """Topics that a previous applier had carried out already."""
    failed: int = 0
    """Topics that the cluster did not change, or the settings do not allow."""
    repeated: int = 0
    """Decisions that were read a second time."""
    batches: int = 0
    """Batches of decisions that were processed."""
    ended_at: float | None = None
    """The end of the last batch [s since the epoch]."""
    positions: Mapping[Partition, int] = field(default_factory=dict)
    """The next offset to apply, by partition of the decisions."""

    def __str__(self) -> str:
        return (
            f"topics: {self.topics} carried out, {self.found_done} found done, {self.failed} failed; "
            f"decisions repeated: {self.repeated}"
        )

    def add(self, results: Sequence[TopicResult]) -> None:
        """Count results."""
        for result in results:
            if result.error_code:
                self.failed += 1
            elif result.found_done:
                self.found_done += 1
            else:
                self.topics += 1
