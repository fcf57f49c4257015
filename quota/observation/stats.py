"""The counters of `observe follow`, which other threads may read while it runs."""

from dataclasses import dataclass

from quota.records.request import MutationRequest
from quota.text import plural


@dataclass(slots=True)
class FollowStats:
    """Counts since the program started; one thread writes them, and others may read."""

    requests: int = 0
    mutations: int = 0
    refused_topics: int = 0
    """Topics that the cluster itself has refused by a quota."""
    assumed_topics: int = 0
    """Topics whose cost is not in the log."""
    invalid_lines: int = 0
    skipped_lines: int = 0
    """Lines that are too long to be read, since the last start or reopening."""
    too_large: int = 0
    """Requests that are larger than `limits.max_request_bytes`, and skipped."""
    behind_bytes: int = 0
    """The bytes of the logs that are not read yet."""
    reopened: int = 0
    """The number of times that it restarted from its positions because the cluster did not answer."""
    looped_at: float = 0.0
    """The time at which its loop last ran, by the monotonic clock [s]; 0 before the first time."""
    waits_for: str = ""
    """Why it waits for a cluster that does not answer; empty if it does not wait."""

    def add(self, request: MutationRequest) -> None:
        """Count a request that was written."""
        self.requests += 1
        if not request.validate_only:
            self.mutations += sum(topic.partitions for topic in request.topics)
        if request.observed is not None:
            self.refused_topics += sum(map(bool, request.observed.error_codes))
            self.assumed_topics += len(request.observed.assumed)

    def __str__(self) -> str:
        return (
            f"observed: {plural(self.requests, 'request')} for {plural(self.mutations, 'mutation')}; refused by the "
            f"cluster: {plural(self.refused_topics, 'topic')}; cost assumed of {plural(self.assumed_topics, 'topic')}; "
            f"invalid lines: {self.invalid_lines:,}"
        )
