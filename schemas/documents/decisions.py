"""Documents on decisions."""

import msgspec

from quota.records.decision import Decision


class Decisions(msgspec.Struct, frozen=True):
    """The output of `decisions list`."""

    decisions: list[Decision]
    """The newest decisions, in the order of their requests' times."""
    newest_at: int | None = None
    """The time of the newest request in the audit, of any client, epoch ms: later decisions follow."""
