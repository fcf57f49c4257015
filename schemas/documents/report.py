"""The document of `report`."""

import msgspec


class WrittenReport(msgspec.Struct, frozen=True):
    """The output of `report`."""

    file: str
    """The file of the page."""
    requests: int
    """The number of requests in it."""
    start: int = msgspec.field(name="from")
    """The start of the period, epoch ms."""
    end: int = msgspec.field(name="to")
    """The end of the period, epoch ms, not included."""
