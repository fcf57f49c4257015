"""The document of `report`."""

import msgspec


class WrittenReport(msgspec.Struct, frozen=True):
    """The output of `report`."""

    file: str
    """The file of the page."""
    requests: int
    """The number of requests in it."""
    period: str
    """The period of the requests, in words."""
