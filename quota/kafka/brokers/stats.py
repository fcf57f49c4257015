"""The counters of `quotas push --follow`, which other threads may read while it runs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quota.timeline.cluster_plan import RateDifference


@dataclass(slots=True)
class PushStats:
    """Counts since the service was started; one thread writes them, and others may read."""

    pushed: int = 0
    """Quotas set or removed on the cluster because the log had changed."""
    repaired: int = 0
    """Quotas set or removed on the cluster because somebody had changed them there."""
    differing: Mapping[str, int] = field(default_factory=dict)
    """Quotas that differ, by the kind of difference, as of the last comparison."""
    compared_at: float | None = None
    """The end of the last comparison [s since the epoch]."""
    looped_at: float = 0.0
    """The time at which its loop last ran, by the monotonic clock [s]; 0 before the first time."""
    waits_for: str = ""
    """Why it waits for a cluster that does not answer; empty if it does not wait."""

    def __str__(self) -> str:
        return f"quotas: {self.pushed} pushed, {self.repaired} repaired, {sum(self.differing.values())} differ"

    def compare(self, differences: Iterable[RateDifference], now: float) -> None:
        """Record the differences that a comparison found, at `now` [s since the epoch]."""
        self.differing = Counter(each.kind for each in differences)
        self.compared_at = now
