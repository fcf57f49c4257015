"""The counts of services that only jobs have; one thread writes them, and others may read."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quota.kafka.timing import LoopStats
from quota.planning.cluster import RateDifference
from quota.records.request import MutationRequest
from quota.text import plural


@dataclass(slots=True)
class FollowStats(LoopStats):
    """The counts of `observe follow`."""

    requests: int = 0
    mutations: int = 0
    rejected_topics: int = 0
    """Topics that the cluster itself has rejected by a quota."""
    assumed_topics: int = 0
    """Topics whose cost is not in the log."""
    invalid_lines: int = 0
    invalid_bytes: int = 0
    behind_bytes: int = 0
    """The bytes of the logs that are not read yet."""

    def add(self, request: MutationRequest) -> None:
        """Count a request that was written."""
        self.requests += 1
        if not request.validate_only:
            self.mutations += sum(topic.partitions for topic in request.topics)
        if request.observed is not None:
            self.rejected_topics += sum(map(bool, request.observed.error_codes))
            self.assumed_topics += len(request.observed.assumed)

    def __str__(self) -> str:
        return (
            f"observed: {plural(self.requests, 'request')} for {plural(self.mutations, 'mutation')}; rejected by the "
            f"cluster: {plural(self.rejected_topics, 'topic')}; cost assumed of "
            f"{plural(self.assumed_topics, 'topic')}; "
            f"invalid lines: {self.invalid_lines:,} ({plural(self.invalid_bytes, 'byte')})"
        )


@dataclass(slots=True)
class PushStats(LoopStats):
    """The counts of `quotas push --follow`."""

    pushed: int = 0
    """Quotas set or removed on the cluster because the log had changed."""
    repaired: int = 0
    """Quotas set or removed on the cluster because somebody had changed them there."""
    differing: Mapping[str, int] = field(default_factory=dict)
    """Quotas that differ, by the kind of difference, as of the last comparison."""
    compared_at: float | None = None
    """The end of the last comparison [s since the epoch]."""

    def __str__(self) -> str:
        return f"quotas: {self.pushed} pushed, {self.repaired} repaired, {sum(self.differing.values())} differ"

    def compare(self, differences: Iterable[RateDifference], now: float) -> None:
        """Record the differences that a comparison found, at `now` [s since the epoch]."""
        self.differing = Counter(difference.kind for difference in differences)
        self.compared_at = now
