"""What an applier has done so far, for whoever asks meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quota.kafka.log_ends import Partition
from quota.records.result import TopicResult


@dataclass(slots=True)
class ApplierStats:
    """What an applier has done since it was started; one thread writes it, and others may read."""

    topics: int = 0
    """Topics carried out."""
    found_done: int = 0
    """Topics that an applier before it had carried out already."""
    failed: int = 0
    """Topics that the cluster, or the settings, did not let it change."""
    repeated: int = 0
    """Decisions that came a second time."""
    batches: int = 0
    """Batches of decisions that were worked off."""
    ended_at: float | None = None
    """When the last of them was [s since the epoch]."""
    reopened: int = 0
    """How often it had to begin again where it was, because a cluster did not answer."""
    places: Mapping[Partition, int] = field(default_factory=dict)
    """How far it has come in each partition of the decisions."""

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

    def end_batch(self, now: float) -> None:
        """Count a batch whose results are written."""
        self.batches += 1
        self.ended_at = now
