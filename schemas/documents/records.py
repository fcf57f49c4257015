"""Documents on decisions, dead letters, observed logs, and the audit's tables."""

from typing import Literal, TypeAlias

import msgspec

from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision


class Decisions(msgspec.Struct, frozen=True):
    """The output of `decisions list`."""

    decisions: list[Decision]
    """The newest decisions, in the order of their requests: by time, and within a partition by offset."""
    newest_at: int | None = None
    """The time of the newest request in the audit, of any client, epoch ms: later decisions follow."""


By: TypeAlias = Literal["user", "client", "bucket"]
"""What sums are of."""

Order: TypeAlias = Literal["requested", "admitted", "rejected"]
"""The sum by which the largest ones are chosen."""


class Usage(msgspec.Struct, frozen=True):
    """The mutations of a user, a client-id or a bucket: of each topic the partitions that it costs.

    Topics that cost nothing do not count: of validate-only requests, and those that a repeated request has paid.
    """

    user: str | None
    """The user; null if the sums are of client-ids or buckets."""
    client_id: str | None
    """The client-id; null if the sums are of users or buckets."""
    bucket: dict[str, str] | None
    """The tags of the bucket, empty for all without a quota; null if the sums are of users or client-ids."""
    requests: int
    requested: int
    """Mutations, admitted or rejected."""
    admitted: int
    rejected: int
    shadow_rejected: int
    """Of the admitted ones, those that a quota in shadow would have rejected, as it is for all observed requests."""
    observed: int
    """Of the requested ones, those of observed requests, which the cluster has answered without a decision."""
    withdrawn: float
    """Of the admitted ones, those given back to the bucket, because their requests were withdrawn."""
    last_at: int
    """The time of the last request, epoch ms."""


class TopUsage(msgspec.Struct, frozen=True):
    """The output of `decisions top`."""

    top: list[Usage]
    """The largest sums, the largest first."""
    left_out: int
    """The number of smaller sums that --limit left out."""
    start: int | None = msgspec.field(name="from")
    """The start of the period, epoch ms; null for none."""
    end: int | None = msgspec.field(name="to")
    """The end of the period, not included, epoch ms; null for none."""
    newest_at: int | None
    """The time of the newest request in the audit, of any client, epoch ms: later decisions follow."""


class SimulatedDecisions(msgspec.Struct, frozen=True):
    """The output of `simulate`. As JSON lines it is one record a line instead, in the order of the requests."""

    decisions: list[Decision]
    dead_letters: list[DeadLetter]
    """The invalid lines; `source.offset` is the number of the line, from 0."""


class ListedDeadLetter(msgspec.Struct, frozen=True):
    """An invalid record of the request topic."""

    id: str
    """The position of the invalid record: topic-partition-offset."""
    timestamp: int | None
    """The time of the invalid record, epoch ms; null if its producer wrote the time."""
    user: str | None
    """The sender that the record names, or its topic identifies; null if neither does."""
    client_id: str | None
    """The client-id that the record names; null if it names none."""
    error: str
    """The reason, which names the field and the value."""
    value: str | None
    """The invalid record, in base64 if it is not UTF-8; null if it has no value."""


class DeadLetters(msgspec.Struct, frozen=True):
    """The output of `dead-letters list` and `dead-letters describe`."""

    dead_letters: list[ListedDeadLetter]
    """The latest dead letters, in the order in which they were received."""
    left_out: int
    """The number of earlier dead letters that --limit left out."""


class ResentDeadLetters(msgspec.Struct, frozen=True):
    """The output of `dead-letters resend`."""

    dead_letters: list[str]
    """The ids of the dead letters: topic-partition-offset."""
    applied: bool
    """Whether their records were sent; false for a dry run."""


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
    warnings: list[str]
    """Users that are probably the sessions of one, such as those of an IAM role."""


class MaintainedTable(msgspec.Struct, frozen=True):
    """The upkeep of a table."""

    table: str
    files_compacted: int
    """The number of small files that were compacted."""
    files_written: int | None
    """The number of files that replaced them; null for a dry run, or if none were compacted."""
    rows_deleted: int
    """The number of rows that were deleted, because they were older than `keep_days`."""
    files_removed: int
    """The number of files that were removed from the storage, because no version of the last two days uses them."""


class Maintenance(msgspec.Struct, frozen=True):
    """The output of `maintain`."""

    tables: list[MaintainedTable]
    applied: bool
    """Whether the tables were changed; false for a dry run, whose numbers are those of the changes that would be
    made."""


class WrittenFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """The output of a command that writes a file, with what the file has; other fields are absent."""

    file: str
    at: int | None = None
    """The time of the snapshot, epoch ms."""
    quota_count: int | None = None
    bucket_count: int | None = None
    topic_count: int | None = None
    partition_count: int | None = None
    requests: int | None = None
    start: int | None = msgspec.field(name="from", default=None)
    """The start of the report's period, epoch ms."""
    end: int | None = msgspec.field(name="to", default=None)
    """The end of the report's period, epoch ms, not included."""
