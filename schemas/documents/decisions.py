"""Documents on decisions, dead letters and reports of them."""

import msgspec

from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision


class Decisions(msgspec.Struct, frozen=True):
    """The output of `decisions list`."""

    decisions: list[Decision]
    """The newest decisions, in the order of their requests' times."""
    newest_at: int | None = None
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
    errors: list[str]
    """The reason, which names the field and the value, and then the errors that the record would have without it."""
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


class WrittenReport(msgspec.Struct, frozen=True):
    """The output of `report`."""

    file: str
    requests: int
    start: int = msgspec.field(name="from")
    """The start of the period, epoch ms."""
    end: int = msgspec.field(name="to")
    """The end of the period, epoch ms, not included."""
