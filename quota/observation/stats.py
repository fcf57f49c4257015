"""Counts of a follower of logs, which other threads may read while it runs."""

from dataclasses import dataclass


@dataclass(slots=True)
class FollowStats:
    """Counts since the program started; one thread writes them, and others may read."""

    requests: int = 0
    mutations: int = 0
    refused_topics: int = 0
    """Topics that the cluster itself has refused by a quota."""
    assumed_topics: int = 0
    """Topics whose cost the log does not tell."""
    broken_lines: int = 0
    too_large: int = 0
    """Requests that are larger than `limits.max_request_bytes`, and left out."""
    behind_bytes: int = 0
    """What is written of the logs and not read yet."""
    reopened: int = 0
    """Times that it went on because the cluster did not answer."""

    def __str__(self) -> str:
        return (
            f"observed: {self.requests} requests for {self.mutations} mutations, {self.refused_topics} topics refused "
            f"by the cluster; cost assumed of {self.assumed_topics} topics; broken lines: {self.broken_lines}"
        )
