"""What a backtest says: per candidate, of all senders together and of each."""

import msgspec


class Totals(msgspec.Struct, frozen=True):
    """What requests came to; partition mutations, unless it says otherwise."""

    requests: int
    refused_requests: int
    """In which a topic was refused."""
    admitted: int
    refused: int
    throttled_seconds: float
    """In which senders had been told to wait; of each sender, times that overlap count once."""
    newly_admitted: int
    """That were refused when they were recorded."""
    newly_refused: int
    """That were admitted when they were recorded."""
    peak: int
    """The most that were admitted within a second."""


class Sender(msgspec.Struct, frozen=True):
    """The load of a user and client-id."""

    user: str
    client_id: str
    load: Totals


class CandidateOutcome(msgspec.Struct, frozen=True):
    """What a candidate comes to."""

    name: str
    load: Totals
    senders: list[Sender]
    """Those with the most mutations asked for come first."""


class Difference(msgspec.Struct, frozen=True):
    """A decision that did not come out as it was recorded, and in which fields."""

    decision_id: str
    fields: list[str]


class Repetition(msgspec.Struct, frozen=True):
    """Whether the recorded quotas give the recorded decisions."""

    decisions: int
    differing: int
    examples: list[Difference]


class Result(msgspec.Struct, frozen=True):
    """All that a backtest says."""

    repetition: Repetition | None
    """None of requests that nobody has judged."""
    outcomes: list[CandidateOutcome]
    """First what was recorded, or what there is without quotas; then each candidate."""
