"""Documents on observed clusters."""

import msgspec


class ReadLog(msgspec.Struct, frozen=True):
    """A request log."""

    bytes: int
    """The bytes that were read."""
    requests: int
    invalid_lines: int
    """The number of lines with a mutation that could not be read."""
    invalid_bytes: int
    cut_lines: int
    """The number of those whose beginning or end is missing, which are those of the largest requests."""
    first_invalid: str | None
    """The reason why the first of them could not be read; null for none."""


class ClockDifference(msgspec.Struct, frozen=True):
    """The difference between the clocks of two logs."""

    log: str
    other: str
    ahead_ms: float
    """The time by which the log is ahead of the other, in ms."""


class LogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `observe import`."""

    logs: dict[str, ReadLog]
    forwarded: int
    """The number of requests that were in the logs of a broker and of the controller, and count once."""
    copies: int
    clock_differences_ms: list[ClockDifference]
    requests_by_operation: dict[str, int]
    mutations_by_operation: dict[str, int]
    assumed_topics_by_operation: dict[str, int]
    validate_only: int
    rejected_topics: int
    """The number of topics that the cluster's own quotas rejected."""
    throttled_requests: int
    failed_topics_by_error: dict[str, int]
    """The number of topics that failed for other reasons, by error code."""
    first_at: int | None
    """The time of the first request, epoch ms; null for none."""
    last_at: int | None
    """The time of the last request, epoch ms; null for none."""


class WrittenSnapshot(msgspec.Struct, frozen=True):
    """The output of `observe snapshot` that writes a file."""

    file: str
    at: int
    """The time of the snapshot, epoch ms."""
    topic_count: int
    partition_count: int
