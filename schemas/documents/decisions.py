"""Documents on decisions."""

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
