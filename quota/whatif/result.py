"""The result of a backtest: the totals of each candidate, overall and by sender."""

import msgspec


class Totals(msgspec.Struct, frozen=True):
    """The totals of requests; in partition mutations, unless another unit is given."""

    requests: int
    rejected_requests: int
    admitted: int
    rejected: int
    throttled_seconds: float
    """The time for which senders were throttled; overlapping throttle times of one sender count once."""
    newly_admitted: int
    """The admitted ones that were rejected when they were recorded."""
    newly_rejected: int
    """The rejected ones that were admitted when they were recorded."""
    peak: int
    """The maximum admitted within one second."""


class Sender(msgspec.Struct, frozen=True):
    """The totals of a user and client-id."""

    user: str
    client_id: str
    load: Totals


class CandidateOutcome(msgspec.Struct, frozen=True):
    """The totals of a candidate."""

    name: str
    load: Totals
    """The totals of all senders."""
    senders: list[Sender]
    """The senders, those with the most requested mutations first."""


class ReplayDifference(msgspec.Struct, frozen=True):
    """A decision that differs from the recorded one, and the fields in which it does."""

    decision_id: str
    fields: list[str]


class Replay(msgspec.Struct, frozen=True):
    """The extent to which the recorded quotas reproduce the recorded decisions."""

    decisions: int
    differing: int
    examples: list[ReplayDifference]


class Result(msgspec.Struct, frozen=True):
    """The result of a backtest."""

    replay: Replay | None
    """None for requests that were never decided."""
    outcomes: list[CandidateOutcome]
    """The outcome as recorded, or without quotas, and then that of each candidate."""
