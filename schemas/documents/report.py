"""The document on a report."""

import msgspec


class WrittenReport(msgspec.Struct, frozen=True):
    """The output of `report`."""

    file: str
    requests: int
    start: int = msgspec.field(name="from")
    """The start of the period, epoch ms."""
    end: int = msgspec.field(name="to")
    """The end of the period, epoch ms, not included."""
